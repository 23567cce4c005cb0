//! What Python's `re` refuses, in its own words, and what it says that others do not.
//! Source: docs/reference/language.md § 4.6.

/// Groups deeper than this are taken for a mistake.
const MAX_DEPTH: usize = 200;

/// A pattern without its global flags.
pub(in crate::pattern) struct Checked<'p> {
    pub body: &'p str,
    /// The flags among `imsxau` that the pattern sets, in order of appearance.
    pub flags: String,
}

struct Checker<'p> {
    pattern: &'p str,
    chars: Vec<char>,
    at: usize,
    n_groups: usize,
    /// Closed groups, by number.
    closed: Vec<bool>,
    names: Vec<(String, usize)>,
    verbose: bool,
    /// Of what was read last: a piece, or all branches of a group.
    width: Width,
    /// Of groups by number, when they are closed.
    widths: Vec<Width>,
    /// Within a look-behind: how many groups there were in front of it.
    in_look_behind: Option<usize>,
    /// A look-behind whose text has no fixed length. That is found when all of the pattern was read.
    has_loose_look_behind: bool,
}

/// How many characters the text of a piece has: at least, at most.
#[derive(Clone, Copy, PartialEq)]
struct Width {
    least: u64,
    most: u64,
}

impl Width {
    const fn of(length: u64) -> Self {
        Self {
            least: length,
            most: length,
        }
    }

    fn and(self, next: Self) -> Self {
        Self {
            least: self.least.saturating_add(next.least),
            most: self.most.saturating_add(next.most),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }

    fn repeated(self, (least, most): (u64, u64)) -> Self {
        Self {
            least: self.least.saturating_mul(least),
            most: self.most.saturating_mul(most),
        }
    }
}

/// Errors read like Python's: `multiple repeat at position 6`.
pub(in crate::pattern) fn check(pattern: &str) -> Result<Checked<'_>, String> {
    let mut flags = String::new();
    let mut body = pattern;
    // `(?im)` at the start holds for the whole pattern.
    loop {
        // A comment before it is none of the expression.
        if let Some(rest) = body.strip_prefix("(?#")
            && let Some((_, after)) = rest.split_once(')')
        {
            body = after;
            continue;
        }
        let Some(rest) = body.strip_prefix("(?") else {
            break;
        };
        let Some((letters, after)) = rest.split_once(')') else {
            break;
        };
        if letters.is_empty() || !letters.chars().all(|c| "aiLmsux".contains(c)) {
            break;
        }
        let end = pattern.chars().count() - after.chars().count() - 1;
        if let Some(at) = letters.find('L') {
            return Err(format!(
                "bad inline flags: cannot use 'L' flag with a str pattern at position {}",
                end - letters.len() + at + 1
            ));
        }
        flags.push_str(letters);
        if flags.contains('a') && flags.contains('u') {
            return Err(format!(
                "bad inline flags: flags 'a', 'u' and 'L' are incompatible at position {end}"
            ));
        }
        body = after;
    }
    let start = pattern.chars().count() - body.chars().count();
    let mut checker = Checker {
        pattern,
        chars: pattern.chars().collect(),
        at: start,
        n_groups: 0,
        closed: vec![true],
        names: Vec::new(),
        verbose: flags.contains('x'),
        width: Width::of(0),
        widths: vec![Width::of(0)],
        in_look_behind: None,
        has_loose_look_behind: false,
    };
    checker.alternatives(0, false)?;
    if checker.at < checker.chars.len() {
        return Err(format!("unbalanced parenthesis at position {}", checker.at));
    }
    if checker.has_loose_look_behind {
        return Err("look-behind requires fixed-width pattern".to_owned());
    }
    Ok(Checked { body, flags })
}

impl Checker<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// Up to a `)` or the end; where the third branch begins, if there is one.
    fn alternatives(&mut self, depth: usize, is_condition: bool) -> Result<Option<usize>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("too many nested groups in {}", self.pattern));
        }
        // Whether the piece before can be repeated, and whether it was already.
        let (mut repeatable, mut repeated) = (false, false);
        let mut bars = Vec::new();
        // The branches before this one, this one without its last piece, and that piece.
        let mut branches: Option<Width> = None;
        let (mut branch, mut piece) = (Width::of(0), Width::of(0));
        while let Some(c) = self.peek() {
            let here = self.at;
            match c {
                ')' => break,
                '|' => {
                    self.at += 1;
                    bars.push(here);
                    let whole = branch.and(piece);
                    branches = Some(branches.map_or(whole, |other| other.or(whole)));
                    (branch, piece) = (Width::of(0), Width::of(0));
                    (repeatable, repeated) = (false, false);
                    continue;
                }
                '*' | '+' | '?' | '{' if self.repeat(here)? => {
                    let times = self.times(here);
                    if repeated {
                        return Err(format!("multiple repeat at position {here}"));
                    }
                    if !repeatable {
                        return Err(format!("nothing to repeat at position {here}"));
                    }
                    // Lazy and possessive forms.
                    if !self.take('?') {
                        self.take('+');
                    }
                    repeated = true;
                    piece = piece.repeated(times);
                    continue;
                }
                '\\' => repeatable = self.escape(false)?,
                '[' => {
                    self.set()?;
                    self.width = Width::of(1);
                    repeatable = true;
                }
                // A comment is nothing: what is before it can be repeated behind it.
                '(' if self.chars[here..].starts_with(&['(', '?', '#']) => {
                    self.group(depth)?;
                    continue;
                }
                '(' => repeatable = self.group(depth)?,
                '^' => {
                    self.at += 1;
                    self.width = Width::of(0);
                    repeatable = false;
                }
                c if self.verbose && (c.is_whitespace() || c == '#') => {
                    self.at += 1;
                    while c == '#' && self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                    continue;
                }
                c => {
                    self.at += 1;
                    self.width = Width::of(u64::from(c != '$'));
                    repeatable = true;
                }
            }
            repeated = false;
            branch = branch.and(piece);
            piece = self.width;
        }
        let whole = branch.and(piece);
        self.width = branches.map_or(whole, |other| other.or(whole));
        if is_condition && bars.is_empty() {
            // Without the group there is nothing.
            self.width = self.width.or(Width::of(0));
        }
        Ok(bars.get(1).copied())
    }

    /// Reads a repeat. False: a brace that stands for itself.
    fn repeat(&mut self, here: usize) -> Result<bool, String> {
        if self.peek() != Some('{') {
            self.at += 1;
            return Ok(true);
        }
        let rest: String = self.chars[here + 1..]
            .iter()
            .take_while(|c| **c != '}')
            .collect();
        let closed = self.chars.get(here + 1 + rest.chars().count()) == Some(&'}');
        let (low, high) = rest.split_once(',').unwrap_or((&rest, &rest));
        let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if !closed || !is_number(low) || !is_number(high) || rest.is_empty() {
            return Ok(false);
        }
        let number = |text: &str| match text {
            "" => Ok(None),
            text => text
                .parse::<u32>()
                .map(Some)
                .map_err(|_| "the repetition number is too large".to_owned()),
        };
        if let (Some(low), Some(high)) = (number(low)?, number(high)?)
            && high < low
        {
            return Err(format!(
                "min repeat greater than max repeat at position {}",
                here + 1
            ));
        }
        self.at = here + rest.chars().count() + 2;
        Ok(true)
    }

    /// How often a repeat that begins there has its piece.
    fn times(&self, here: usize) -> (u64, u64) {
        match self.chars[here] {
            '*' => (0, u64::MAX),
            '+' => (1, u64::MAX),
            '?' => (0, 1),
            _ => {
                let text: String = self.chars[here + 1..self.at - 1].iter().collect();
                let (low, high) = text.split_once(',').unwrap_or((&text, &text));
                (low.parse().unwrap_or(0), high.parse().unwrap_or(u64::MAX))
            }
        }
    }

    /// What a look-behind refers to must be known when it is read backwards.
    fn check_look_behind(&self, group: usize) -> Result<(), String> {
        let Some(n_before) = self.in_look_behind else {
            return Ok(());
        };
        if self.closed.get(group) != Some(&true) {
            return Err(format!(
                "cannot refer to an open group at position {}",
                self.at
            ));
        }
        if group > n_before {
            return Err(format!(
                "cannot refer to group defined in the same lookbehind subpattern at position {}",
                self.at
            ));
        }
        Ok(())
    }

    /// Reads an escape. True: it can be repeated.
    fn escape(&mut self, in_set: bool) -> Result<bool, String> {
        let here = self.at;
        self.at += 1;
        self.width = Width::of(1);
        let Some(c) = self.peek() else {
            return Err(format!("bad escape (end of pattern) at position {here}"));
        };
        self.at += 1;
        let digits = match c {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            let text: String = self.chars[self.at..].iter().take(digits).collect();
            let valid = text.chars().take_while(char::is_ascii_hexdigit).count();
            if valid < digits {
                let shown: String = text.chars().take(valid).collect();
                return Err(format!("incomplete escape \\{c}{shown} at position {here}"));
            }
            self.at += digits;
            return Ok(true);
        }
        match c {
            'N' => self.named_character(here)?,
            '0' => {
                while self.peek().is_some_and(|c| c.is_digit(8)) && self.at < here + 4 {
                    self.at += 1;
                }
            }
            '0'..='7' if in_set => self.octal(here)?,
            '8' | '9' if in_set => return Err(format!("bad escape \\{c} at position {here}")),
            '1'..='9' => {
                let more = self.peek().filter(char::is_ascii_digit);
                self.at += usize::from(more.is_some());
                let is_octal = |at: usize| self.chars.get(at).is_some_and(|c| c.is_digit(8));
                if (here + 1..here + 4).all(is_octal) {
                    self.octal(here)?;
                    return Ok(true);
                }
                let text: String = self.chars[here + 1..self.at].iter().collect();
                let group: usize = text.parse().unwrap_or(0);
                match self.closed.get(group) {
                    None => {
                        return Err(format!(
                            "invalid group reference {group} at position {}",
                            here + 1
                        ));
                    }
                    Some(false) => {
                        return Err(format!("cannot refer to an open group at position {here}"));
                    }
                    Some(true) => {}
                }
                self.check_look_behind(group)?;
                self.width = self.widths[group];
            }
            'A' | 'Z' | 'B' if in_set => {
                return Err(format!("bad escape \\{c} at position {here}"));
            }
            'A' | 'Z' | 'b' | 'B' if !in_set => {
                self.width = Width::of(0);
                return Ok(false);
            }
            'b' | 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' => {}
            c if c.is_ascii_alphabetic() => {
                return Err(format!("bad escape \\{c} at position {here}"));
            }
            _ => {}
        }
        Ok(true)
    }

    /// Reads `{NAME}` behind `\N`.
    fn named_character(&mut self, here: usize) -> Result<(), String> {
        let is_open = self.take('{');
        let rest = &self.chars[self.at.min(self.chars.len())..];
        let name: String = rest.iter().take_while(|c| **c != '}').collect();
        let length = name.chars().count();
        if !is_open {
            return Err(format!("missing {{ at position {}", self.at));
        }
        if name.is_empty() {
            return Err(format!("missing character name at position {}", self.at));
        }
        if rest.len() == length {
            return Err(format!(
                "missing }}, unterminated name at position {}",
                self.at
            ));
        }
        self.at += length + 1;
        match unicode_names2::character(&name) {
            Some(_) => Ok(()),
            None => Err(format!(
                "undefined character name '{name}' at position {here}"
            )),
        }
    }

    /// Reads a character by its octal number of up to three digits.
    fn octal(&mut self, here: usize) -> Result<(), String> {
        self.at = here + 1;
        while self.peek().is_some_and(|c| c.is_digit(8)) && self.at < here + 4 {
            self.at += 1;
        }
        let text: String = self.chars[here + 1..self.at].iter().collect();
        match u32::from_str_radix(&text, 8) {
            Ok(code) if code > 0o377 => Err(format!(
                "octal escape value \\{text} outside of range 0-0o377 at position {here}"
            )),
            _ => Ok(()),
        }
    }

    fn set(&mut self) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        self.take('^');
        let first = self.at;
        loop {
            let here = self.at;
            let Some(c) = self.peek() else {
                return Err(format!("unterminated character set at position {start}"));
            };
            if c == ']' && here > first {
                self.at += 1;
                return Ok(());
            }
            let low = self.member()?;
            let is_range = self.peek() == Some('-')
                && !matches!(self.chars.get(self.at + 1), Some(']') | None);
            if !is_range {
                continue;
            }
            self.at += 1;
            let high = self.member()?;
            let text: String = self.chars[here..self.at].iter().collect();
            match (low, high) {
                (Some(low), Some(high)) if low <= high => {}
                _ => return Err(format!("bad character range {text} at position {here}")),
            }
        }
    }

    /// One member of a set; `None`: a class such as `\d`.
    fn member(&mut self) -> Result<Option<char>, String> {
        let here = self.at;
        let Some(c) = self.peek() else {
            return Ok(None);
        };
        if c != '\\' {
            self.at += 1;
            return Ok(Some(c));
        }
        self.escape(true)?;
        let text: String = self.chars[here + 1..self.at].iter().collect();
        let code = |digits: &str, radix| {
            u32::from_str_radix(digits, radix)
                .ok()
                .and_then(char::from_u32)
        };
        Ok(match text.chars().next() {
            Some('x' | 'u' | 'U') => code(&text[1..], 16),
            Some('0'..='7') => code(&text, 8),
            Some('d' | 'D' | 's' | 'S' | 'w' | 'W') => None,
            Some('N') => {
                let name = text[1..].trim_matches(['{', '}']);
                unicode_names2::character(name)
            }
            Some('n') => Some('\n'),
            Some('t') => Some('\t'),
            Some('r') => Some('\r'),
            Some('f') => Some('\x0c'),
            Some('v') => Some('\x0b'),
            Some('a') => Some('\x07'),
            Some('b') => Some('\x08'),
            other => other,
        })
    }

    /// Reads a group. True: it can be repeated.
    fn group(&mut self, depth: usize) -> Result<bool, String> {
        let start = self.at;
        self.at += 1;
        let mut number = None;
        let is_condition = self.chars[self.at..].starts_with(&['?', '(']);
        let (mut is_look_around, mut is_look_behind) = (false, false);
        let outer = self.in_look_behind;
        if self.take('?') {
            let Some(kind) = self.peek() else {
                return Err(format!("unexpected end of pattern at position {}", self.at));
            };
            self.at += 1;
            match kind {
                'P' => match self.named(start)? {
                    Some(name) => number = Some(self.open(name)),
                    // A reference by name.
                    None => return Ok(true),
                },
                ':' | '>' => {}
                '#' => {
                    while self.peek().is_some_and(|c| c != ')') {
                        self.at += 1;
                    }
                    if !self.take(')') {
                        return Err(format!(
                            "missing ), unterminated comment at position {start}"
                        ));
                    }
                    return Ok(false);
                }
                '=' | '!' => is_look_around = true,
                '<' => match self.peek() {
                    Some('=' | '!') => {
                        self.at += 1;
                        (is_look_around, is_look_behind) = (true, true);
                        self.in_look_behind = outer.or(Some(self.n_groups));
                    }
                    Some(c) => {
                        return Err(format!("unknown extension ?<{c} at position {}", start + 1));
                    }
                    None => {
                        return Err(format!("unexpected end of pattern at position {}", self.at));
                    }
                },
                '(' => self.condition(start)?,
                c if "aiLmsux-".contains(c) => self.local_flags(start)?,
                c => return Err(format!("unknown extension ?{c} at position {}", start + 1)),
            }
        } else {
            number = Some(self.open(String::new()));
        }
        let third_branch = self.alternatives(depth + 1, is_condition)?;
        self.in_look_behind = outer;
        if let Some(at) = third_branch.filter(|_| is_condition) {
            return Err(format!(
                "conditional backref with more than two branches at position {at}"
            ));
        }
        if !self.take(')') {
            return Err(format!(
                "missing ), unterminated subpattern at position {start}"
            ));
        }
        if let Some(number) = number {
            self.closed[number] = true;
            self.widths[number] = self.width;
        }
        self.has_loose_look_behind |= is_look_behind && self.width.least != self.width.most;
        if is_look_around {
            self.width = Width::of(0);
        }
        Ok(true)
    }

    fn open(&mut self, name: String) -> usize {
        self.n_groups += 1;
        self.closed.push(false);
        self.widths.push(Width::of(0));
        if !name.is_empty() {
            self.names.push((name, self.n_groups));
        }
        self.n_groups
    }

    fn name_until(&mut self, end: char) -> Result<String, String> {
        let here = self.at;
        let name: String = self.chars[here..]
            .iter()
            .take_while(|c| **c != end)
            .collect();
        let length = name.chars().count();
        if self.chars.get(here + length) != Some(&end) {
            return Err(match length {
                0 => format!("missing group name at position {here}"),
                _ => format!("missing {end}, unterminated name at position {here}"),
            });
        }
        if name.is_empty() {
            return Err(format!("missing group name at position {here}"));
        }
        self.at = here + length + 1;
        Ok(name)
    }

    /// `(?P<name>`, or `(?P=name)` as a whole, which gives `None`.
    fn named(&mut self, start: usize) -> Result<Option<String>, String> {
        let kind = self.peek();
        self.at += 1;
        let here = self.at;
        let is_identifier = |name: &str| {
            let mut chars = name.chars();
            chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
                && chars.all(|c| c.is_alphanumeric() || c == '_')
        };
        match kind {
            Some('<') => {
                let name = self.name_until('>')?;
                if !is_identifier(&name) {
                    return Err(format!(
                        "bad character in group name '{name}' at position {here}"
                    ));
                }
                if let Some((_, other)) = self.names.iter().find(|(known, _)| *known == name) {
                    return Err(format!(
                        "redefinition of group name '{name}' as group {}; was group {other} at position {here}",
                        self.n_groups + 1
                    ));
                }
                Ok(Some(name))
            }
            Some('=') => {
                let name = self.name_until(')')?;
                if !is_identifier(&name) {
                    return Err(format!(
                        "bad character in group name '{name}' at position {here}"
                    ));
                }
                match self.names.iter().find(|(known, _)| *known == name) {
                    None => Err(format!("unknown group name '{name}' at position {here}")),
                    Some((_, group)) if !self.closed[*group] => {
                        Err(format!("cannot refer to an open group at position {start}"))
                    }
                    Some((_, group)) => {
                        self.width = self.widths[*group];
                        self.check_look_behind(*group)?;
                        Ok(None)
                    }
                }
            }
            Some(c) => Err(format!("unknown extension ?P{c} at position {}", start + 1)),
            None => Err(format!(
                "unexpected end of pattern at position {}",
                self.at - 1
            )),
        }
    }

    /// `(?(1)`, `(?(name)`
    fn condition(&mut self, _start: usize) -> Result<(), String> {
        let here = self.at;
        let name = self.name_until(')')?;
        let group = match name.parse::<usize>() {
            Ok(0) => return Err(format!("bad group number at position {here}")),
            // Groups may come later.
            Ok(group) => group,
            Err(_) => match self.names.iter().find(|(known, _)| *known == name) {
                Some((_, group)) => *group,
                None => return Err(format!("unknown group name '{name}' at position {here}")),
            },
        };
        self.check_look_behind(group)
    }

    /// `(?i:`; what ends with a parenthesis holds for the whole pattern, and stands at its start.
    fn local_flags(&mut self, start: usize) -> Result<(), String> {
        // The letter that is read is among them: `group` has read the first one.
        self.at -= 1;
        let (mut on, mut off) = (String::new(), None::<String>);
        while let Some(c) = self.peek() {
            let here = self.at;
            self.at += 1;
            match (c, &mut off) {
                (':', Some(off)) if off.is_empty() => {
                    return Err(format!("missing flag at position {here}"));
                }
                (':', off) => {
                    let is_both = |c: char| off.as_ref().is_some_and(|off| off.contains(c));
                    if on.chars().any(is_both) {
                        return Err(format!(
                            "bad inline flags: flag turned on and off at position {here}"
                        ));
                    }
                    return Ok(());
                }
                (')', None) => {
                    return Err(format!(
                        "global flags not at the start of the expression at position {start}"
                    ));
                }
                ('-', off @ None) => *off = Some(String::new()),
                ('L', None) => {
                    return Err(format!(
                        "bad inline flags: cannot use 'L' flag with a str pattern at position {}",
                        here + 1
                    ));
                }
                ('a' | 'L' | 'u', Some(_)) => {
                    return Err(format!(
                        "bad inline flags: cannot turn off flags 'a', 'u' and 'L' at position {}",
                        here + 1
                    ));
                }
                ('a', None) if on.contains('u') => return Err(self.one_alphabet()),
                ('u', None) if on.contains('a') => return Err(self.one_alphabet()),
                (c, None) if "aimsux".contains(c) => on.push(c),
                (c, Some(off)) if "imsx".contains(c) => off.push(c),
                (c, _) if c.is_alphabetic() => {
                    return Err(format!("unknown flag at position {here}"));
                }
                (_, Some(off)) if off.is_empty() => {
                    return Err(format!("missing flag at position {here}"));
                }
                (_, None) => return Err(format!("missing -, : or ) at position {here}")),
                (_, Some(_)) => return Err(format!("missing : at position {here}")),
            }
        }
        Err(format!("missing -, : or ) at position {}", self.at))
    }

    fn one_alphabet(&self) -> String {
        let at = self.at;
        format!("bad inline flags: flags 'a', 'u' and 'L' are incompatible at position {at}")
    }
}
