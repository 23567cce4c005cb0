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
