//! What the files of the reference say of a server, and the variables that go before them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the environment is named, in the files.
pub(super) const CONFIG: &str = "config";

/// Where the API is, in the files.
pub(super) const TRANSPORT: &str = "compiler_rest_transport";

/// What the files and variables say, by section and name. In names, `_` and `-` are the same.
#[derive(Debug, Default)]
pub(super) struct Settings {
    values: BTreeMap<(String, String), String>,
    /// What looks like a slip of the pen.
    doubts: Vec<String>,
}

/// The one of `known` that somebody meant who wrote `written`, which is none of them: other files have sections and names that
/// are not for us, so only what is all but the same counts.
fn meant<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    if known.contains(&written) {
        return None;
    }
    let most = |name: &str| if name.len() < 5 { 1 } else { 2 };
    let mut known = known.iter().copied();
    known.find(|name| distance(written, name) <= most(name))
}

/// How many letters have to be put in, taken out or replaced.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut next = vec![index + 1];
        for (at, (wanted, above)) in other.iter().zip(row.windows(2)).enumerate() {
            let replaced = above[0] + usize::from(letter != *wanted);
            next.push(replaced.min(above[1] + 1).min(next[at] + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

impl Settings {
    pub(super) fn read(project: &Path, named: Option<&Path>) -> Result<Self, String> {
        use std::io::ErrorKind::{NotADirectory, NotFound};

        let mut settings = Self::default();
        let home = crate::cli::home().map(|home| home.join(".inmanta.cfg"));
        let files = [Some(PathBuf::from("/etc/inmanta/inmanta.cfg")), home];
        let own = [".inmanta", ".inmanta.cfg"];
        let of_project = own.map(|name| Some(project.join(name)));
        // Read from where one stands, too, as the reference does: a folder of a project may be for another server.
        let here = own.map(|name| Some(PathBuf::from(name)));
        for file in files.into_iter().chain(of_project).chain(here).flatten() {
            match std::fs::read_to_string(&file) {
                Ok(text) => settings.add(&file, &text)?,
                Err(error) if matches!(error.kind(), NotFound | NotADirectory) => (),
                // That of the machine may be for others; but whoever wrote one of their own wants to know.
                Err(error) => settings
                    .doubts
                    .push(format!("cannot read {}: {error}", file.display())),
            }
        }
        if let Some(file) = named {
            let text = std::fs::read_to_string(file)
                .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            settings.add(file, &text)?;
        }
        Ok(settings)
    }

    fn add(&mut self, file: &Path, text: &str) -> Result<(), String> {
        let mut section = String::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let place = || format!("{}:{}", file.display(), index + 1);
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                section = name.trim().to_owned();
                if let Some(meant) = meant(&section, &[CONFIG, TRANSPORT]) {
                    self.doubts.push(format!(
                        "{}: nothing is read from [{section}]; did you mean [{meant}]?",
                        place()
                    ));
                }
                continue;
            }
            let Some((name, value)) = line.split_once(['=', ':']) else {
                return Err(format!(
                    "{}: `{line}` is neither a [section] nor `name = value`",
                    place()
                ));
            };
            let name = name.trim().to_lowercase().replace('_', "-");
            let known: &[&str] = match section.as_str() {
                CONFIG => &["environment"],
                TRANSPORT => &["host", "port", "ssl", "ssl-ca-cert-file", "token"],
                _ => &[],
            };
            if let Some(meant) = meant(&name, known) {
                self.doubts.push(format!(
                    "{}: `{name}` of [{section}] is not read; did you mean `{meant}`?",
                    place()
                ));
            }
            self.values
                .insert((section.clone(), name), value.trim().to_owned());
        }
        Ok(())
    }

    pub(super) fn get(&self, section: &str, name: &str) -> Option<String> {
        let variable = format!("INMANTA_{section}_{name}")
            .to_uppercase()
            .replace('-', "_");
        let key = (section.to_owned(), name.to_owned());
        let value = std::env::var(variable)
            .ok()
            .or_else(|| self.values.get(&key).cloned());
        value.filter(|value| !value.is_empty())
    }

    /// Whether it is on. What is neither a yes nor a no is a mistake: a token must not go out in clear because of one.
    pub(super) fn is_on(&self, section: &str, name: &str) -> Result<bool, String> {
        let Some(text) = self.get(section, name) else {
            return Ok(false);
        };
        match text.to_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(format!(
                "`{text}` is neither `true` nor `false` (`{name}` of [{section}])"
            )),
        }
    }

    #[expect(clippy::print_stderr, reason = "doubts go to stderr")]
    pub(super) fn tell_doubts(&self) {
        // A file of the project is read again from where one stands.
        let doubts: std::collections::BTreeSet<_> = self.doubts.iter().collect();
        for doubt in doubts {
            eprintln!("steward: {doubt}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_noticed_and_what_others_read_is_not() {
        let mut settings = Settings::default();
        let text = "[config]\nenvironmnt = x\nlog-dir = /x\n[compiler_rest_transprt]\nhost = x\n[server]\nhots = y\n\
                    [compiler_rest_transport]\nprot = 1\nssl_ca_cert_file = a\n";
        settings.add(Path::new(".inmanta"), text).unwrap();
        assert_eq!(
            settings.doubts,
            [
                ".inmanta:2: `environmnt` of [config] is not read; did you mean `environment`?",
                ".inmanta:4: nothing is read from [compiler_rest_transprt]; did you mean [compiler_rest_transport]?",
            ]
        );
    }

    #[test]
    fn a_later_file_goes_before_an_earlier_one_and_what_is_no_setting_is_named() {
        let mut settings = Settings::default();
        let file = Path::new(".inmanta");
        let first = "[config]\nenvironment = a\n# x\n[compiler_rest_transport]\nssl_ca_cert_file: /ca\nport=1\n";
        settings.add(file, first).unwrap();
        settings
            .add(file, "[compiler_rest_transport]\nport = 2\n")
            .unwrap();
        assert_eq!(settings.get("config", "environment").as_deref(), Some("a"));
        assert_eq!(settings.get(TRANSPORT, "port").as_deref(), Some("2"));
        assert_eq!(
            settings.get(TRANSPORT, "ssl-ca-cert-file").as_deref(),
            Some("/ca")
        );
        assert_eq!(settings.get(TRANSPORT, "host"), None);
        let error = settings.add(file, "[config]\nnonsense\n").unwrap_err();
        assert!(error.contains(".inmanta:2"), "{error}");
    }

    #[test]
    fn a_mistake_in_ssl_does_not_turn_it_off() {
        let mut settings = Settings::default();
        let mut is_on = |text: &str| {
            let text = format!("[{TRANSPORT}]\nssl = {text}\n");
            settings.add(Path::new(".inmanta"), &text).unwrap();
            settings.is_on(TRANSPORT, "ssl")
        };
        assert_eq!(is_on("True"), Ok(true));
        assert_eq!(is_on("no"), Ok(false));
        let error = is_on("ture").unwrap_err();
        assert!(error.contains("neither `true` nor `false`"), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_file_that_is_not_there() {
        let project = tempfile::tempdir().unwrap();
        let file = project.path().join(".inmanta");
        let is_doubted = || {
            let settings = Settings::read(project.path(), None).unwrap();
            let name = file.display().to_string();
            settings.doubts.iter().any(|doubt| doubt.contains(&name))
        };
        assert!(!is_doubted());
        std::fs::write(&file, b"\xff\xfe").unwrap();
        assert!(is_doubted());
    }
}
