//! What of a text costs the YAML library more than linear time or memory, found in one pass before the library sees it.
//!
//! The library (libyaml, through serde_yaml) looks at every open bracket again for each token, compares every `%TAG` with
//! those before it, and keeps an event for each token until the whole text is read. So brackets are counted here exactly as
//! its scanner counts them: this is that scanner, without the tokens' contents. Where it would stop with an error, this
//! stops, too. Two answers that differ would be a way around the limits: the fuzz target `yaml` compares them.

use super::text::Cursor;
use super::{Error, Limits};

/// A node has an anchor, a tag, an indicator before it, and what opens and closes it.
const TOKENS_OF_A_NODE: usize = 6;

/// Each is compared with those before it. Nobody needs one.
const MAX_TAG_DIRECTIVES: usize = 100;

/// A key on one line is not longer; the library forgets a possible key then.
const LONGEST_SIMPLE_KEY: usize = 1024;

/// The text ends, or the library would refuse it here.
struct End;

enum Stop {
    End,
    Limit(Error),
}

impl From<End> for Stop {
    fn from(_: End) -> Self {
        Self::End
    }
}

/// What may turn out to be a key, when a `:` follows.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    is_possible: bool,
    is_required: bool,
    line: usize,
    column: usize,
    index: usize,
}

/// How much there was, for tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The most brackets that were open at once.
    pub brackets: usize,
    /// The most block collections that were open at once.
    pub blocks: usize,
    pub tokens: usize,
    pub aliases: usize,
}

/// Whether the library may read a text.
pub fn check(text: &str, limits: &Limits) -> Result<Scanned, Error> {
    if let Some((at, _)) = text.match_indices("%TAG").nth(MAX_TAG_DIRECTIVES) {
        let line = 1 + text[..at].matches('\n').count();
        let limit = MAX_TAG_DIRECTIVES;
        return Err(Error::TooManyDirectives { limit, line });
    }
    let mut scanner = Scanner {
        text: Cursor::new(text),
        limits,
        indent: -1,
        indents: Vec::new(),
        keys: vec![SimpleKey::default()],
        is_key_allowed: true,
        scanned: Scanned::default(),
    };
    loop {
        match scanner.token() {
            Ok(()) => {}
            Err(Stop::End) => return Ok(scanner.scanned),
            Err(Stop::Limit(error)) => return Err(error),
        }
    }
}

struct Scanner<'a> {
    text: Cursor<'a>,
    limits: &'a Limits,
    /// The indentation of the innermost block collection; -1 outside.
    indent: isize,
    indents: Vec<isize>,
    /// One for each open bracket, and one for outside.
    keys: Vec<SimpleKey>,
    is_key_allowed: bool,
    scanned: Scanned,
}

impl Scanner<'_> {
    fn is_in_flow(&self) -> bool {
        self.keys.len() > 1
    }

    fn key(&mut self) -> Result<&mut SimpleKey, End> {
        self.keys.last_mut().ok_or(End)
    }

    fn count(&mut self, n_tokens: usize) -> Result<(), Stop> {
        self.scanned.tokens += n_tokens;
        if self.scanned.tokens > self.limits.nodes.saturating_mul(TOKENS_OF_A_NODE) {
            return Err(Stop::Limit(Error::TooManyNodes {
                limit: self.limits.nodes,
                line: Some(self.text.line + 1),
            }));
        }
        Ok(())
    }

    fn count_alias(&mut self) -> Result<(), Stop> {
        self.scanned.aliases += 1;
        if self.scanned.aliases > self.limits.aliases {
            return Err(Stop::Limit(Error::TooManyAliases {
                limit: self.limits.aliases,
                line: Some(self.text.line + 1),
            }));
        }
        Ok(())
    }

    fn too_deep(&self) -> Stop {
        Stop::Limit(Error::TooDeep {
            limit: self.limits.depth,
            line: Some(self.text.line + 1),
        })
    }

    /// Goes behind the next token.
    fn token(&mut self) -> Result<(), Stop> {
        self.skip_to_next_token();
        self.forget_stale_key()?;
        self.unroll(self.text.column as isize)?;
        if self.text.is_end() {
            self.unroll(-1)?;
            return Err(Stop::End);
        }
        self.count(1)?;
        if self.text.column == 0 && self.text.is(b'%') {
            return self.directive();
        }
        if self.text.is_document_mark() {
            self.unroll(-1)?;
            self.remove_key()?;
            self.is_key_allowed = false;
            self.text.skip(3);
            return Ok(());
        }
        let is_before_blank = self.text.is_blank_or_end_at(1);
        match self.text.byte() {
            b'[' | b'{' => self.open(),
            b']' | b'}' => Ok(self.close()?),
            b',' => {
                self.remove_key()?;
                self.is_key_allowed = true;
                self.text.skip(1);
                Ok(())
            }
            b'-' if is_before_blank => self.entry(true),
            b'?' if self.is_in_flow() || is_before_blank => self.entry(!self.is_in_flow()),
            b':' if self.is_in_flow() || is_before_blank => self.value(),
            sign @ (b'*' | b'&') => {
                self.save_key()?;
                if sign == b'*' {
                    self.count_alias()?;
                }
                Ok(self.text.anchor()?)
            }
            b'!' => {
                self.save_key()?;
                let is_in_flow = self.is_in_flow();
                Ok(self.text.tag(is_in_flow)?)
            }
            b'|' | b'>' if !self.is_in_flow() => {
                self.remove_key()?;
                self.is_key_allowed = true;
                Ok(self.text.block_scalar(self.indent)?)
            }
            quote @ (b'\'' | b'"') => {
                self.save_key()?;
                Ok(self.text.quoted(quote)?)
            }
            b'-' | b'?' | b':' => self.plain(),
            b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => Err(Stop::End),
            _ => self.plain(),
        }
    }

    fn skip_to_next_token(&mut self) {
        loop {
            if self.text.column == 0 && self.text.is_byte_order_mark() {
                self.text.skip(1);
            }
            let is_tab_blank = self.is_in_flow() || !self.is_key_allowed;
            while self.text.is(b' ') || is_tab_blank && self.text.is(b'\t') {
                self.text.skip(1);
            }
            if self.text.is(b'#') {
                self.text.skip_to_break();
            }
            if !self.text.is_break() {
                return;
            }
            self.text.skip_line();
            if !self.is_in_flow() {
                self.is_key_allowed = true;
            }
        }
    }

    fn forget_stale_key(&mut self) -> Result<(), End> {
        let (line, index) = (self.text.line, self.text.index);
        let key = self.key()?;
        if key.is_possible && (key.line < line || key.index + LONGEST_SIMPLE_KEY < index) {
            if key.is_required {
                return Err(End);
            }
            key.is_possible = false;
        }
        Ok(())
    }

    /// What begins here may be a key; none can follow it directly.
    fn save_key(&mut self) -> Result<(), End> {
        if self.is_key_allowed {
            self.remove_key()?;
            let is_required = !self.is_in_flow() && self.indent == self.text.column as isize;
            *self.key()? = SimpleKey {
                is_possible: true,
                is_required,
                line: self.text.line,
                column: self.text.column,
                index: self.text.index,
            };
        }
        self.is_key_allowed = false;
        Ok(())
    }

    fn remove_key(&mut self) -> Result<(), End> {
        let key = self.key()?;
        if key.is_possible && key.is_required {
            return Err(End);
        }
        key.is_possible = false;
        Ok(())
    }

    fn open(&mut self) -> Result<(), Stop> {
        self.save_key()?;
        if self.keys.len() > self.limits.depth {
            return Err(self.too_deep());
        }
        self.keys.push(SimpleKey::default());
        self.scanned.brackets = self.scanned.brackets.max(self.keys.len() - 1);
        self.is_key_allowed = true;
        self.text.skip(1);
        Ok(())
    }

    fn close(&mut self) -> Result<(), End> {
        self.remove_key()?;
        if self.is_in_flow() {
            self.keys.pop();
        }
        self.is_key_allowed = false;
        self.text.skip(1);
        Ok(())
    }

    /// `-` or `?`.
    fn entry(&mut self, is_key_allowed: bool) -> Result<(), Stop> {
        if !self.is_in_flow() {
            if !self.is_key_allowed {
                return Err(Stop::End);
            }
            self.roll(self.text.column)?;
        }
        self.remove_key()?;
        self.is_key_allowed = is_key_allowed;
        self.text.skip(1);
        Ok(())
    }

    fn value(&mut self) -> Result<(), Stop> {
        let key = *self.key()?;
        if key.is_possible {
            self.count(1)?;
            self.roll(key.column)?;
            self.key()?.is_possible = false;
            self.is_key_allowed = false;
        } else {
            if !self.is_in_flow() {
                if !self.is_key_allowed {
                    return Err(Stop::End);
                }
                self.roll(self.text.column)?;
            }
            self.is_key_allowed = !self.is_in_flow();
        }
        self.text.skip(1);
        Ok(())
    }

    /// A block collection begins, if it is further in than the one around it.
    fn roll(&mut self, column: usize) -> Result<(), Stop> {
        let column = column as isize;
        if self.is_in_flow() || self.indent >= column {
            return Ok(());
        }
        if self.indents.len() >= self.limits.depth {
            return Err(self.too_deep());
        }
        self.count(1)?;
        self.indents.push(self.indent);
        self.indent = column;
        self.scanned.blocks = self.scanned.blocks.max(self.indents.len());
        Ok(())
    }

    fn unroll(&mut self, column: isize) -> Result<(), Stop> {
        while !self.is_in_flow() && self.indent > column {
            self.count(1)?;
            self.indent = self.indents.pop().unwrap_or(-1);
        }
        Ok(())
    }

    fn plain(&mut self) -> Result<(), Stop> {
        self.save_key()?;
        let is_in_flow = self.is_in_flow();
        if self.text.plain(self.indent + 1, is_in_flow)? {
            self.is_key_allowed = true;
        }
        Ok(())
    }

    fn directive(&mut self) -> Result<(), Stop> {
        self.unroll(-1)?;
        self.remove_key()?;
        self.is_key_allowed = false;
        Ok(self.text.directive()?)
    }
}

impl From<super::text::Refused> for End {
    fn from(_: super::text::Refused) -> Self {
        Self
    }
}

impl From<super::text::Refused> for Stop {
    fn from(_: super::text::Refused) -> Self {
        Self::End
    }
}
