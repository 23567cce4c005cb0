//! JSON that is read as it comes, from which one text is wanted.

use std::io::{self, BufRead, Read};

use super::{invalid, unexpected};

/// Bytes of a name in an object.
const MAX_NAME_BYTES: usize = 1024;
/// How deep values may be nested, as in `serde_json`.
const MAX_DEPTH: usize = 128;

/// JSON as far as uploads need it: an object whose values are skipped, but for one.
pub(super) struct Json<'a> {
    pub(super) body: &'a mut dyn BufRead,
}

impl<'a> Json<'a> {
    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.body.fill_buf()?.first().copied())
    }

    fn next(&mut self) -> io::Result<u8> {
        let byte = self.peek()?.ok_or_else(|| invalid("the JSON is cut off"))?;
        self.body.consume(1);
        Ok(byte)
    }

    pub(super) fn peek_token(&mut self) -> io::Result<Option<u8>> {
        while let Some(byte) = self.peek()? {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(Some(byte));
            }
            self.body.consume(1);
        }
        Ok(None)
    }

    pub(super) fn next_token(&mut self) -> io::Result<u8> {
        self.peek_token()?;
        self.next()
    }

    pub(super) fn expect(&mut self, wanted: u8) -> io::Result<()> {
        match self.next_token()? {
            byte if byte == wanted => Ok(()),
            byte => Err(unexpected(byte)),
        }
    }

    /// The text that begins here, behind its first quote.
    pub(super) fn text(&mut self) -> Text<'_, 'a> {
        Text {
            json: self,
            is_ended: false,
        }
    }

    pub(super) fn name(&mut self) -> io::Result<Vec<u8>> {
        let mut name = Vec::new();
        let mut text = self.text();
        text.by_ref()
            .take(MAX_NAME_BYTES as u64)
            .read_to_end(&mut name)?;
        text.is_at_end()?;
        Ok(name)
    }

    /// Skips a value. Brackets must match in number; it is not looked at further.
    pub(super) fn skip_value(&mut self) -> io::Result<()> {
        let mut depth = 0_usize;
        loop {
            match self.next_token()? {
                b'"' => {
                    io::copy(&mut self.text(), &mut io::sink())?;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' if depth > 0 => depth -= 1,
                b',' | b':' if depth > 0 => continue,
                b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => self.skip_word()?,
                other => return Err(unexpected(other)),
            }
            if depth == 0 {
                return Ok(());
            }
            if depth > MAX_DEPTH {
                return Err(invalid("the JSON is nested too deeply"));
            }
        }
    }

    /// The rest of a number, `true`, `false` or `null`.
    fn skip_word(&mut self) -> io::Result<()> {
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.') {
                break;
            }
            self.body.consume(1);
        }
        Ok(())
    }
}

/// The bytes of a JSON text, up to its closing quote.
pub(super) struct Text<'a, 'b> {
    json: &'a mut Json<'b>,
    is_ended: bool,
}

impl Text<'_, '_> {
    /// # Errors
    /// There is more of it.
    pub(super) fn is_at_end(&mut self) -> io::Result<()> {
        let mut byte = [0];
        match self.read(&mut byte)? {
            0 => Ok(()),
            _ => Err(invalid("a text is too long, or no base64 at its end")),
        }
    }

    /// The character of an escape, behind the backslash; those that base64 and names have are of one byte.
    fn escaped(&mut self) -> io::Result<u8> {
        Ok(match self.json.next()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut digits = String::new();
                for _ in 0..4 {
                    digits.push(char::from(self.json.next()?));
                }
                let code = u32::from_str_radix(&digits, 16)
                    .map_err(|_| invalid("a text has a wrong escape"))?;
                // Others are in no base64, and in no name that is looked for.
                u8::try_from(code).ok().filter(u8::is_ascii).unwrap_or(b'?')
            }
            _ => return Err(invalid("a text has a wrong escape")),
        })
    }
}

impl Read for Text<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_ended || buffer.is_empty() {
            return Ok(0);
        }
        let bytes = self.json.body.fill_buf()?;
        let n_plain = bytes
            .iter()
            .take(buffer.len())
            .take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=31))
            .count();
        if n_plain > 0 {
            buffer[..n_plain].copy_from_slice(&bytes[..n_plain]);
            self.json.body.consume(n_plain);
            return Ok(n_plain);
        }
        match self.json.next()? {
            b'"' => {
                self.is_ended = true;
                Ok(0)
            }
            b'\\' => {
                buffer[0] = self.escaped()?;
                Ok(1)
            }
            _ => Err(invalid("a text has a control character")),
        }
    }
}
