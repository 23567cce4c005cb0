//! `steward fmt`: formats models. Files with mistakes are left as they are.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steward_compiler::{MemWorld, World, format, render};

use super::terminal::{Paint, printable};
use super::{FAILED, FmtArguments, Format, TROUBLE, USAGE};

/// What one text came to.
enum Outcome {
    Unchanged,
    Changed,
    Mistaken,
    Trouble,
}

#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
pub(super) fn run(arguments: &FmtArguments) -> ExitCode {
    if arguments.stdin {
        if !arguments.paths.is_empty() {
            eprintln!("steward: --stdin formats standard input only, so it takes no PATH");
            return ExitCode::from(USAGE);
        }
        return exit_code(&[stdin(arguments)], arguments.check);
    }
    let mut files = Vec::new();
    // Without a word it would write anew whatever lies below a home folder.
    if arguments.paths.is_empty() && !is_of_models(Path::new(".")) {
        eprintln!(
            "steward: this folder is no project and no module; name what to format: steward fmt PATH…, `.` for all below this one"
        );
        return ExitCode::from(USAGE);
    }
    let here = [PathBuf::from(".")];
    let paths = if arguments.paths.is_empty() {
        &here[..]
    } else {
        &arguments.paths
    };
    for path in paths {
        if path.is_dir() {
            models(path, &mut files);
        } else if path.exists() {
            files.push(path.clone());
        } else {
            eprintln!("steward: there is no {}", path.display());
            return ExitCode::from(USAGE);
        }
    }
    let outcomes: Vec<Outcome> = files.iter().map(|path| file(path, arguments)).collect();
    exit_code(&outcomes, arguments.check)
}

/// Whether a folder is that of a project or module, or one in it, by the files that these have.
fn is_of_models(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else {
        return false;
    };
    let names = ["project.yml", "module.yml", "setup.cfg", "pyproject.toml"];
    let mut above = folder.ancestors();
    above.any(|folder| names.iter().any(|name| folder.join(name).is_file()))
}

fn exit_code(outcomes: &[Outcome], check: bool) -> ExitCode {
    let any = |wanted: fn(&Outcome) -> bool| outcomes.iter().any(wanted);
    if any(|outcome| matches!(outcome, Outcome::Trouble)) {
        return ExitCode::from(TROUBLE);
    }
    let is_mistaken = any(|outcome| matches!(outcome, Outcome::Mistaken));
    let is_changed = any(|outcome| matches!(outcome, Outcome::Changed));
    if is_mistaken || check && is_changed {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}

/// All models below a directory, sorted; hidden directories and links are not entered.
fn models(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_symlink() || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            models(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "cf") {
            found.push(path);
        }
    }
}

#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
fn stdin(arguments: &FmtArguments) -> Outcome {
    let mut text = String::new();
    if let Err(error) = std::io::stdin().read_to_string(&mut text) {
        eprintln!("steward: cannot read standard input: {error}");
        return Outcome::Trouble;
    }
    let formatted = match formatted("<stdin>", &text, arguments.message_format) {
        Ok(formatted) => formatted,
        Err(outcome) => return outcome,
    };
    if !arguments.check
        && let Err(error) = std::io::stdout().write_all(formatted.as_bytes())
    {
        eprintln!("steward: cannot write to standard output: {error}");
        return Outcome::Trouble;
    }
    if formatted == text {
        Outcome::Unchanged
    } else {
        Outcome::Changed
    }
}

#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
fn file(path: &Path, arguments: &FmtArguments) -> Outcome {
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("steward: cannot read {}: {error}", printable(&name));
            return Outcome::Trouble;
        }
    };
    let formatted = match formatted(&name, &text, arguments.message_format) {
        Ok(formatted) if formatted == text => return Outcome::Unchanged,
        Ok(formatted) => formatted,
        Err(outcome) => return outcome,
    };
    let name = printable(&name);
    if arguments.check {
        eprintln!("steward: {name} would change");
    } else if let Err(error) = replace(path, &formatted) {
        eprintln!("steward: cannot write {name}: {error}");
        return Outcome::Trouble;
    } else {
        eprintln!("formatted {name}");
    }
    Outcome::Changed
}

/// Writes beside the file and puts it in its place, so that nobody sees half of it.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file()
        .set_permissions(std::fs::metadata(path)?.permissions())?;
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}

#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
fn formatted(name: &str, text: &str, message_format: Format) -> Result<String, Outcome> {
    format(name, text).map_err(|diagnostics| {
        let world: &dyn World = &MemWorld::default().file(name, text);
        let color = Paint::of_stderr().is_colored();
        for diagnostic in &diagnostics {
            match message_format {
                Format::Json => eprintln!("{}", diagnostic.to_json()),
                Format::Human => eprintln!("{}", render(diagnostic, world, color)),
            }
        }
        Outcome::Mistaken
    })
}
