//! Texts with URLs, for people.

/// A text in which no URL has a user or password: reports and logs are read by more people than may use an index or a
/// repository. What comes after the host stays, whatever it is.
#[must_use]
pub fn without_credentials(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let is_end = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'');
        let end = behind.find(is_end).unwrap_or(behind.len());
        let (host, _) = behind.split_at(end);
        rest = match host.rfind('@') {
            Some(at) => behind.get(at + 1..).unwrap_or_default(),
            None => behind,
        };
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::without_credentials;

    #[test]
    fn users_and_passwords_of_urls_are_not_shown() {
        for (text, shown) in [
            ("https://a:b@host/x@y", "https://host/x@y"),
            ("https://host/x@y", "https://host/x@y"),
            ("https://host?who=me@home", "https://host?who=me@home"),
            ("https://a:b@host#x@y", "https://host#x@y"),
            ("/a@b", "/a@b"),
            ("git@host:x", "git@host:x"),
            (
                "Looking in https://user:p@ss@host/simple, 'http://a:b@c' and http://host/a@b",
                "Looking in https://host/simple, 'http://c' and http://host/a@b",
            ),
            ("https://a:b@", "https://"),
            ("nothing ://", "nothing ://"),
        ] {
            assert_eq!(without_credentials(text), shown);
        }
    }
}
