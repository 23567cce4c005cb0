//! Interned names: each distinct text is hashed once, afterwards it is a number.

use indexmap::IndexSet;

use crate::hash::BuildHasher;

/// A name of the model or of the compiler's own vocabulary.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Symbol(pub u32);

#[derive(Default)]
pub struct Interner {
    names: IndexSet<Box<str>, BuildHasher>,
}

impl Interner {
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(index) = self.names.get_index_of(text) {
            return Symbol(index as u32);
        }
        Symbol(self.names.insert_full(text.into()).0 as u32)
    }

    /// The symbol of a text that was interned before.
    pub fn find(&self, text: &str) -> Option<Symbol> {
        self.names
            .get_index_of(text)
            .map(|index| Symbol(index as u32))
    }

    pub fn text(&self, symbol: Symbol) -> &str {
        self.names
            .get_index(symbol.0 as usize)
            .map_or("", |text| text)
    }
}
