//! Errors as text: one line with all causes, for logs and reports.

/// An error with all its causes, for one log line. A cause that the text before it holds already is not repeated.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let causes = std::iter::successors(error.source(), |error| error.source());
    for cause in causes.map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// What an HTTP client says of a connection that failed, without the mark that it came from the operating system.
pub fn plain_cause(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.strip_prefix("io: ").unwrap_or(&text).to_owned()
}
