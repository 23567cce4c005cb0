//! Did you mean …: the known name that a mistyped one is nearest to.

use std::cmp::Reverse;

use super::Fail;

/// Longer texts are no slips of the finger.
const MAX_LENGTH: usize = 64;

/// The candidate that differs by so little that it is likely meant; of several the nearest, then the first by text.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    if length > MAX_LENGTH {
        return None;
    }
    let allowed = match length {
        0..=2 => 0,
        3..=5 => 1,
        6..=8 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name && candidate.len() <= 2 * MAX_LENGTH)
        .filter_map(|candidate| {
            if candidate.eq_ignore_ascii_case(name) {
                return Some((0, candidate));
            }
            let begins = candidate.starts_with(name) && length >= 3;
            // A distance is never less than the difference in length, which is found much faster: templates look for many
            // names in vain, without a mistake.
            let difference = candidate.chars().count().abs_diff(length);
            if !begins && (allowed == 0 || difference > allowed) {
                return None;
            }
            let distance = strsim::damerau_levenshtein(name, candidate);
            (distance <= allowed || begins).then_some((distance, candidate))
        })
        .max_by_key(|(distance, candidate)| Reverse((*distance, *candidate)))
        .map(|(_, candidate)| candidate)
}

impl super::Failure {
    /// Proposes a name, unless something better is said already.
    pub fn did_you_mean<S: AsRef<str>>(self: Box<Self>, candidate: Option<S>) -> Fail {
        match candidate {
            Some(candidate) if self.help.is_none() => {
                self.help(format!("did you mean `{}`?", candidate.as_ref()))
            }
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn slips_of_the_finger_are_understood() {
        let names = ["hostname", "host", "port", "Interface", "a", "b"];
        assert_eq!(closest("hotsname", names), Some("hostname"));
        assert_eq!(closest("interface", names), Some("Interface"));
        assert_eq!(closest("prt", names), Some("port"));
        assert_eq!(closest("hos", names), Some("host"));
    }

    #[test]
    fn other_words_are_other_words() {
        let names = ["hostname", "host", "port", "a", "b"];
        assert_eq!(closest("c", names), None);
        assert_eq!(closest("name", names), None);
        assert_eq!(closest("disk", names), None);
    }
}
