//! A place in a YAML text, and the scalars that can hide brackets from who only counts them.
//!
//! Each function goes as far as the library's scanner goes, and refuses where that one refuses.

/// The library stops here with an error.
pub struct Refused;

pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Lines before this one.
    pub line: usize,
    /// Characters of the line before this one.
    pub column: usize,
    /// Characters before this one.
    pub index: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        // The library takes a NUL for the end, or refuses it.
        let text = text.split('\0').next().unwrap_or_default();
        Self {
            bytes: text.as_bytes(),
            at: 0,
            line: 0,
            column: 0,
            index: 0,
        }
    }

    fn byte_at(&self, offset: usize) -> u8 {
        self.bytes.get(self.at + offset).copied().unwrap_or(0)
    }

    /// The next byte; zero at the end.
    pub fn byte(&self) -> u8 {
        self.byte_at(0)
    }

    pub fn is(&self, byte: u8) -> bool {
        self.byte() == byte
    }

    pub fn is_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn starts_with(&self, offset: usize, bytes: &[u8]) -> bool {
        let rest = self.bytes.get(self.at + offset..);
        rest.is_some_and(|rest| rest.starts_with(bytes))
    }

    pub fn is_byte_order_mark(&self) -> bool {
        self.starts_with(0, "\u{feff}".as_bytes())
    }

    fn is_blank(&self) -> bool {
        matches!(self.byte(), b' ' | b'\t')
    }

    fn is_break_at(&self, offset: usize) -> bool {
        match self.byte_at(offset) {
            b'\r' | b'\n' => true,
            0xc2 => self.byte_at(offset + 1) == 0x85,
            0xe2 => {
                self.byte_at(offset + 1) == 0x80 && matches!(self.byte_at(offset + 2), 0xa8 | 0xa9)
            }
            _ => false,
        }
    }

    pub fn is_break(&self) -> bool {
        self.is_break_at(0)
    }

    pub fn is_blank_or_end_at(&self, offset: usize) -> bool {
        let is_blank = matches!(self.byte_at(offset), b' ' | b'\t' | 0);
        is_blank || self.is_break_at(offset)
    }

    fn is_blank_or_end(&self) -> bool {
        self.is_blank_or_end_at(0)
    }

    /// `---` or `...` at the start of a line.
    pub fn is_document_mark(&self) -> bool {
        let is_mark = self.starts_with(0, b"---") || self.starts_with(0, b"...");
        self.column == 0 && is_mark && self.is_blank_or_end_at(3)
    }

    /// Goes on by characters, of which none is a break.
    pub fn skip(&mut self, n_characters: usize) {
        for _ in 0..n_characters {
            let width = match self.byte() {
                0..0xc0 => 1,
                0xc0..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0.. => 4,
            };
            self.at = self.bytes.len().min(self.at + width);
            self.column += 1;
            self.index += 1;
        }
    }

    /// Goes behind a break.
    pub fn skip_line(&mut self) {
        let n_characters = match self.starts_with(0, b"\r\n") {
            true => 2,
            false => 1,
        };
        self.skip(n_characters);
        self.column = 0;
        self.line += 1;
    }

    pub fn skip_to_break(&mut self) {
        while !self.is_break() && !self.is_end() {
            self.skip(1);
        }
    }

    fn skip_word(&mut self) -> usize {
        let start = self.at;
        while matches!(self.byte(), b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'-') {
            self.skip(1);
        }
        self.at - start
    }

    /// `&name` or `*name`.
    pub fn anchor(&mut self) -> Result<(), Refused> {
        self.skip(1);
        let is_named = self.skip_word() > 0;
        let ends = self.is_blank_or_end()
            || matches!(
                self.byte(),
                b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'
            );
        if is_named && ends {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// `!name`, `!<uri>`.
    pub fn tag(&mut self, is_in_flow: bool) -> Result<(), Refused> {
        self.skip(1);
        let is_verbatim = self.is(b'<');
        self.skip(usize::from(is_verbatim));
        let is_of_uri = |byte: u8| match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => true,
            b',' | b'[' | b']' => is_verbatim,
            _ => b"_-;/?:@&=+$.%!~*'()".contains(&byte),
        };
        while is_of_uri(self.byte()) {
            self.skip(1);
        }
        if is_verbatim {
            if !self.is(b'>') {
                return Err(Refused);
            }
            self.skip(1);
        }
        let ends = self.is_blank_or_end() || is_in_flow && self.is(b',');
        if ends { Ok(()) } else { Err(Refused) }
    }

    /// `|` or `>`, in a collection of that indent.
    pub fn block_scalar(&mut self, parent: isize) -> Result<(), Refused> {
        self.skip(1);
        let mut indent = 0;
        for _ in 0..2 {
            match self.byte() {
                b'+' | b'-' => self.skip(1),
                digit @ b'1'..=b'9' if indent == 0 => {
                    indent = parent.max(0) + isize::from(digit as i8 - b'0' as i8);
                    self.skip(1);
                }
                _ => {}
            }
        }
        while self.is_blank() {
            self.skip(1);
        }
        if self.is(b'#') {
            self.skip_to_break();
        }
        match self.is_break() {
            true => self.skip_line(),
            false if self.is_end() => {}
            false => return Err(Refused),
        }
        indent = self.block_breaks(indent, parent)?;
        while self.column as isize == indent && !self.is_end() {
            self.skip_to_break();
            if self.is_break() {
                self.skip_line();
            }
            indent = self.block_breaks(indent, parent)?;
        }
        Ok(())
    }

    /// Blanks and empty lines before one of a block scalar. An indent of 0 is not known yet; gives the known one.
    fn block_breaks(&mut self, indent: isize, parent: isize) -> Result<isize, Refused> {
        let mut deepest = 0;
        loop {
            let is_before = |column: usize| indent == 0 || (column as isize) < indent;
            while is_before(self.column) && self.is(b' ') {
                self.skip(1);
            }
            deepest = deepest.max(self.column as isize);
            if is_before(self.column) && self.is(b'\t') {
                return Err(Refused);
            }
            if !self.is_break() {
                break;
            }
            self.skip_line();
        }
        match indent {
            0 => Ok(deepest.max(parent + 1).max(1)),
            known => Ok(known),
        }
    }

    /// `'text'` or `"text"`.
    pub fn quoted(&mut self, quote: u8) -> Result<(), Refused> {
        self.skip(1);
        loop {
            if self.is_end() || self.is_document_mark() {
                return Err(Refused);
            }
            if self.is_break() {
                self.skip_line();
            } else if quote == b'\'' && self.starts_with(0, b"''") {
                self.skip(2);
            } else if self.is(quote) {
                self.skip(1);
                return Ok(());
            } else if quote == b'"' && self.is(b'\\') {
                self.skip(1);
                match self.is_break() {
                    true => self.skip_line(),
                    false => self.skip(1),
                }
            } else {
                self.skip(1);
            }
        }
    }

    /// A text without quotes. `indent`: less ends it, outside brackets. Gives whether it ends at the start of a line.
    pub fn plain(&mut self, indent: isize, is_in_flow: bool) -> Result<bool, Refused> {
        let mut is_after_break = false;
        loop {
            if self.is_document_mark() || self.is(b'#') {
                return Ok(is_after_break);
            }
            while !self.is_blank_or_end() {
                let is_colon = self.is(b':');
                if is_in_flow && is_colon && b",?[]{}".contains(&self.byte_at(1)) {
                    return Err(Refused);
                }
                let ends = is_colon && self.is_blank_or_end_at(1)
                    || is_in_flow && b",[]{}".contains(&self.byte());
                if ends {
                    break;
                }
                is_after_break = false;
                self.skip(1);
            }
            if !self.is_blank() && !self.is_break() {
                return Ok(is_after_break);
            }
            while self.is_blank() || self.is_break() {
                if self.is_break() {
                    self.skip_line();
                    is_after_break = true;
                } else if is_after_break && (self.column as isize) < indent && self.is(b'\t') {
                    return Err(Refused);
                } else {
                    self.skip(1);
                }
            }
            if !is_in_flow && (self.column as isize) < indent {
                return Ok(is_after_break);
            }
        }
    }

    /// A line that starts with `%`.
    pub fn directive(&mut self) -> Result<(), Refused> {
        self.skip(1);
        if self.skip_word() == 0 || !self.is_blank_or_end() {
            return Err(Refused);
        }
        self.skip_to_comment();
        if self.is(b'#') {
            self.skip_to_break();
        }
        if self.is_break() {
            self.skip_line();
        }
        Ok(())
    }

    /// The values of a directive have no blanks: a `#` after one begins a comment, and so does the end.
    fn skip_to_comment(&mut self) {
        let mut is_after_blank = false;
        while !self.is_break() && !self.is_end() {
            if is_after_blank && self.is(b'#') {
                return;
            }
            is_after_blank = self.is_blank();
            self.skip(1);
        }
    }
}
