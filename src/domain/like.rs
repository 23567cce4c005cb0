//! Patterns of `LIKE` of SQL, in which filters of lists are written.
//!
//! Lists that are kept in memory are searched here and not by a database, and both databases read patterns in ways of their own,
//! so there is one reader: `%` stands for any text, `_` for one character, and what is behind a `\` for itself. Letters are the
//! same in both cases.

/// A pattern, prepared for many texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Like(Vec<Part>);

/// A part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Is(char),
}

impl Like {
    /// A pattern for whole texts.
    pub fn whole(pattern: &str) -> Self {
        let mut parts = Vec::new();
        let lower = pattern.to_lowercase();
        let mut chars = lower.chars();
        while let Some(one) = chars.next() {
            parts.push(match one {
                '%' => Part::Any,
                '_' => Part::One,
                '\\' => Part::Is(chars.next().unwrap_or('\\')),
                other => Part::Is(other),
            });
        }
        Self(parts)
    }

    /// A pattern for a part of a text, which may be anywhere in it.
    pub fn part(pattern: &str) -> Self {
        Self::whole(&format!("%{pattern}%"))
    }

    /// Whether a word, looked for as a part, means itself and nothing else.
    pub fn is_plain(word: &str) -> bool {
        !word.contains(['%', '_', '\\'])
    }

    /// The longest text, in small letters, that all texts have that fit.
    pub fn longest_text(&self) -> String {
        let runs = self.0.split(|part| !matches!(part, Part::Is(_)));
        let texts = runs.map(|run| {
            let chars = run.iter().filter_map(|part| match part {
                Part::Is(one) => Some(*one),
                Part::Any | Part::One => None,
            });
            chars.collect::<String>()
        });
        texts.max_by_key(String::len).unwrap_or_default()
    }

    /// Whether a text fits.
    pub fn fits(&self, text: &str) -> bool {
        self.fits_lower(&text.to_lowercase())
    }

    /// As [`fits`](Self::fits), of a text that has no capital letters.
    ///
    /// Goes through the text once and remembers the last `%` only: when the rest does not fit, that `%` takes one character more.
    pub fn fits_lower(&self, text: &str) -> bool {
        let parts = &self.0;
        let next = |at: usize| text[at..].chars().next();
        let (mut at, mut part) = (0, 0);
        // The part behind the last `%`, and the first byte that this `%` does not take.
        let mut last_any: Option<(usize, usize)> = None;
        while let Some(one) = next(at) {
            match parts.get(part) {
                Some(Part::Any) => {
                    part += 1;
                    last_any = Some((part, at));
                }
                Some(Part::One) => (at, part) = (at + one.len_utf8(), part + 1),
                Some(Part::Is(wanted)) if *wanted == one => {
                    (at, part) = (at + one.len_utf8(), part + 1);
                }
                _ => {
                    let Some((behind, taken)) = last_any else {
                        return false;
                    };
                    let taken = taken + next(taken).map_or(0, char::len_utf8);
                    last_any = Some((behind, taken));
                    (at, part) = (taken, behind);
                }
            }
        }
        parts[part..].iter().all(|rest| *rest == Part::Any)
    }
}

#[cfg(test)]
mod tests {
    use super::Like;

    #[test]
    fn a_pattern_is_like_that_of_sql_case_aside() {
        for (value, pattern, expected) in [
            ("abc", "abc", true),
            ("abc", "ABC", true),
            ("abc", "b", false),
            ("abc", "%b%", true),
            ("abc", "a_c", true),
            ("abc", "a__c", false),
            ("aäc", "a_c", true),
            ("äöü", "%Ö_", true),
            ("abc", "%", true),
            ("", "%", true),
            ("", "_", false),
            ("aXbXc", "a%b%c", true),
            ("aXbX", "a%b%c", false),
            ("aab", "%ab", true),
            ("a%b", "a\\%b", true),
            ("axb", "a\\%b", false),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(
                Like::whole(pattern).fits(value),
                expected,
                "{value} {pattern}"
            );
        }
    }

    #[test]
    fn a_part_may_be_anywhere_and_has_wildcards_too() {
        for (value, pattern, expected) in [
            ("eth1", "th", true),
            ("eth1", "e_h", true),
            ("eth1", "e%1", true),
            ("eth1", "_____", false),
            ("eth1", "", true),
            ("a%b", "\\%", true),
            ("ab", "\\%", false),
        ] {
            assert_eq!(
                Like::part(pattern).fits(value),
                expected,
                "{value} {pattern}"
            );
        }
        assert_eq!(Like::part("a_Motd%x").longest_text(), "motd");
        assert_eq!(Like::part("%_").longest_text(), "");
        assert!(Like::is_plain("a.b") && !Like::is_plain("a_b"));
    }

    /// Input: a LIKE pattern of many `%` (docs/reference/security.md § 4.20). Answer: it takes no time beyond the product of the lengths.
    #[test]
    fn a_pattern_with_many_wildcards_takes_no_time() {
        let value = "a".repeat(5_000);
        let pattern = format!("{}b", "%a".repeat(500));
        assert!(!Like::whole(&pattern).fits(&value));
    }
}
