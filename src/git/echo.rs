//! A remote was shown the login, and may answer with it: in a message, a redirect, the name of a branch or of a file. What an
//! error repeats of such an answer has a mark in the login's place, since errors go into the log and to all who may read the
//! environment.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::error::Error;
use super::transport::Login;

const MARK: &str = "<redacted: token>";
/// What is shorter occurs by chance.
const MIN_TOKEN_CHARS: usize = 4;

/// The error without what a remote repeated of `login`: the token as it is and as URLs have it, and both as HTTP sends them.
pub(super) fn without_login(error: Error, login: Option<&Login>) -> Error {
    let Some(login) = login.filter(|login| login.token.chars().count() >= MIN_TOKEN_CHARS) else {
        return error;
    };
    let sent = basic(login);
    let forms = [
        sent.trim_end_matches('=').to_owned(),
        login.token.clone(),
        utf8_percent_encode(&login.token, NON_ALPHANUMERIC).to_string(),
    ];
    let Ok(text) = serde_json::to_string(&error) else {
        return error;
    };
    let masked = forms.iter().fold(text.clone(), |text, form| {
        // As the text quotes it: it may have backslashes.
        let quoted = Value::from(form.as_str()).to_string();
        text.replace(&quoted[1..quoted.len() - 1], MARK)
    });
    if masked == text {
        return error;
    }
    // A token that is a word of ours makes no error of it any more.
    serde_json::from_str(&masked).unwrap_or_else(|_| Error::Git {
        doing: "say what the remote answered".into(),
        cause: "the answer repeats the token".to_owned(),
    })
}

/// User and token as the value of `Authorization: Basic`.
pub(super) fn basic(login: &Login) -> String {
    STANDARD.encode(format!("{}:{}", login.user, login.token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(token: &str) -> Login {
        Login {
            user: "bot".to_owned(),
            token: token.to_owned(),
        }
    }

    #[test]
    fn no_form_of_the_token_is_left_in_an_error() {
        let token = "cana/ry+s3cr\\eet\"";
        let error = |cause: &str| Error::Unreachable {
            url: "https://host/a".to_owned(),
            cause: cause.to_owned(),
        };
        for (answer, masked) in [
            (
                format!("no: {token}, {token}"),
                format!("no: {MARK}, {MARK}"),
            ),
            ("cana%2Fry%2Bs3cr%5Ceet%22".to_owned(), MARK.to_owned()),
            (
                format!("Basic {}", basic(&login(token))),
                format!("Basic {MARK}"),
            ),
            ("something else".to_owned(), "something else".to_owned()),
        ] {
            let found = without_login(error(&answer), Some(&login(token)));
            assert_eq!(found.to_string(), error(&masked).to_string());
        }
    }

    #[test]
    fn a_token_that_is_a_word_of_ours_does_no_harm() {
        let error = || Error::Io {
            doing: "open token".into(),
            path: "/a".into(),
            source: std::io::Error::from_raw_os_error(28),
        };
        let found = without_login(error(), Some(&login("open")));
        assert!(
            found
                .to_string()
                .starts_with("cannot <redacted: token> token /a"),
            "{found}"
        );
        assert_eq!(
            without_login(error(), Some(&login("n"))).to_string(),
            error().to_string()
        );
    }
}
