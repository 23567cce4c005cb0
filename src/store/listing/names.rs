//! All ids of an environment as a few long texts, in which a part of a text is found as fast as memory is read.
//!
//! What may stand anywhere in a text no ordinary index finds, and the indexes that find it (of all groups of three letters)
//! take more room than what they index, cost each new resource more than the rest of its row, and know no words of two
//! letters. A million values of 30 letters are 30 MB, which a search for a substring goes through in some milliseconds. So
//! types, agents and values stand here one behind the other, in small letters; a resource is a place in the list of values,
//! and the number of what its id begins with. Places are in the order of the ids, so that a page is a few neighbours.

use std::collections::HashMap;
use std::ops::Range;

use super::Search;
use super::texts::{Texts, Word};
use crate::domain::ResourceId;

/// What an id begins with: `type[agent,attribute=`. An id of another shape is all value.
#[derive(Debug)]
struct Head {
    text: Box<str>,
    resource_type: u32,
    agent: u32,
    n_places: u32,
}

impl Head {
    fn attribute(&self) -> Option<&str> {
        let (_, rest) = self.text.split_once('[')?;
        let (_, pair) = rest.split_once(',')?;
        pair.strip_suffix('=')
    }
}

/// Type, agent, head and value of an id.
fn parts(id: &str) -> (&str, &str, &str, &str) {
    let shaped = || {
        let (resource_type, rest) = id.strip_suffix(']')?.split_once('[')?;
        let (agent, pair) = rest.split_once(',')?;
        let (_, value) = pair.split_once('=')?;
        let head = &id[..id.len() - value.len() - 1];
        Some((resource_type, agent, head, value))
    };
    shaped().unwrap_or(("", "", "", id))
}

/// Texts, each once, and their numbers while the list is made.
#[derive(Debug, Default)]
struct Once {
    texts: Texts,
    numbers: HashMap<Box<str>, u32>,
}

impl Once {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(&text.to_lowercase());
        self.numbers.insert(text.into(), number);
        number
    }
}

/// A list that is being made.
#[derive(Debug, Default)]
pub(super) struct Making {
    types: Once,
    agents: Once,
    heads: HashMap<Box<str>, u32>,
    names: Names,
}

impl Making {
    /// Adds an id that is greater than all before it.
    pub(super) fn push(&mut self, id: &str) {
        let (resource_type, agent, head, value) = parts(id);
        let last = self.names.head_of.last().copied();
        let last = last.filter(|last| *self.names.heads[*last as usize].text == *head);
        let head = match last.or_else(|| self.heads.get(head).copied()) {
            Some(number) => number,
            None => {
                let number = self.names.heads.len() as u32;
                self.names.heads.push(Head {
                    text: head.into(),
                    resource_type: self.types.number(resource_type),
                    agent: self.agents.number(agent),
                    n_places: 0,
                });
                self.heads.insert(head.into(), number);
                number
            }
        };
        let names = &mut self.names;
        names.heads[head as usize].n_places += 1;
        let is_small = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
        if value.bytes().all(is_small) {
            names.values.push(value);
        } else {
            let place = names.head_of.len() as u32;
            names.written.insert(place, value.into());
            names.values.push(&value.to_lowercase());
        }
        names.head_of.push(head);
    }

    pub(super) fn finish(self) -> Names {
        Names {
            types: self.types.texts,
            agents: self.agents.texts,
            ..self.names
        }
    }
}

/// Ids in ascending order, and what they are searched by.
#[derive(Debug, Default)]
pub(super) struct Names {
    types: Texts,
    agents: Texts,
    heads: Vec<Head>,
    /// Of each place.
    head_of: Vec<u32>,
    values: Texts,
    /// Values that have other letters than small ones, by place.
    written: HashMap<u32, Box<str>>,
}

/// A search of a list, prepared.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Of each head; `None`: any.
    heads: Option<Vec<bool>>,
    /// No head will do.
    is_nothing: bool,
    /// Whether values are best looked at one by one, since few have a head that will do.
    is_few: bool,
    values: Vec<Word>,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.head_of.len()
    }

    pub(super) fn id(&self, place: usize) -> String {
        let head = &*self.heads[self.head_of[place] as usize].text;
        let value = match self.written.get(&(place as u32)) {
            Some(value) => value,
            None => self.values.get(place),
        };
        let end = if head.is_empty() { "" } else { "]" };
        [head, value, end].concat()
    }

    /// The first place whose id is not smaller.
    pub(super) fn place(&self, id: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if *self.id(middle) < *id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub(super) fn has(&self, id: &str) -> bool {
        let place = self.place(id);
        place < self.len() && self.id(place) == *id
    }

    pub(super) fn wanted(&self, search: &Search) -> Wanted {
        let values = search.values.iter().map(|word| Word::new(word)).collect();
        if search.types.is_empty() && search.agents.is_empty() {
            return Wanted {
                heads: None,
                is_nothing: false,
                is_few: false,
                values,
            };
        }
        let (types, agents) = (
            self.types.with(&search.types),
            self.agents.with(&search.agents),
        );
        let mut n_places = 0;
        let heads = self.heads.iter().map(|head| {
            let will_do = types[head.resource_type as usize] && agents[head.agent as usize];
            n_places += if will_do { head.n_places as usize } else { 0 };
            will_do
        });
        let heads = Some(heads.collect());
        Wanted {
            heads,
            is_nothing: n_places == 0,
            // To look at one value costs what it takes to go through some of them.
            is_few: n_places * 8 < self.len(),
            values,
        }
    }

    /// Whether the ids of all resources with these types and agents have this attribute in them.
    pub(super) fn all_say(&self, search: &Search, attribute: &str) -> bool {
        let wanted = self.wanted(search).heads;
        let mut heads = self.heads.iter().enumerate();
        heads.all(|(place, head)| {
            let will_do = wanted.as_ref().is_none_or(|wanted| wanted[place]);
            !will_do || head.attribute() == Some(attribute)
        })
    }

    /// The next place of the range that is wanted: the first one, or the last.
    fn next(&self, wanted: &mut Wanted, places: &Range<usize>, is_last: bool) -> Option<usize> {
        if wanted.is_nothing {
            return None;
        }
        let by_value = !wanted.values.is_empty() && !wanted.is_few;
        let mut left = places.clone();
        while !left.is_empty() {
            let place = if by_value {
                self.values.find(&mut wanted.values, &left, is_last)?
            } else if is_last {
                left.end - 1
            } else {
                left.start
            };
            let head = self.head_of[place] as usize;
            let will_do = wanted.heads.as_ref().is_none_or(|heads| heads[head]);
            let words = &wanted.values;
            let is_in = || {
                by_value || words.is_empty() || {
                    let value = self.values.get(place);
                    words.iter().any(|word| word.is_in(value))
                }
            };
            if will_do && is_in() {
                return Some(place);
            }
            left = without(&left, place, is_last);
        }
        None
    }

    /// Takes so many ids that are wanted out of a range, the first ones or the last ones, in the order in which they come.
    pub(super) fn take(
        &self,
        wanted: &mut Wanted,
        places: &mut Range<usize>,
        is_last: bool,
        n_ids: usize,
    ) -> Vec<ResourceId> {
        let mut found = Vec::new();
        while found.len() < n_ids {
            let Some(place) = self.next(wanted, places, is_last) else {
                *places = 0..0;
                break;
            };
            found.push(ResourceId::new(self.id(place)));
            *places = without(places, place, is_last);
        }
        found
    }
}

/// The range behind a place, or before it.
fn without(places: &Range<usize>, place: usize, is_last: bool) -> Range<usize> {
    if is_last {
        places.start..place
    } else {
        place + 1..places.end
    }
}

#[cfg(test)]
mod tests;
