//! Which Python a project needs, as its lock and its modules say, and the one that is taken for it.

use std::path::{Path, PathBuf};

use steward_compiler::yaml::{self, LIMITS};

use super::{Error, LOCK_FILE, Lock, Requirements};
use crate::files::entries;
use crate::python::{ANOTHER, Interpreter, Need, Pythons};

/// What the modules ask of Python, and what would be good besides.
pub(super) fn of_project(
    requirements: &Requirements,
    lock: Option<&Lock>,
) -> (Vec<Need>, Vec<Need>) {
    // What std of today needs, and with it every module; an older one may do without.
    const MODULES: &str = ">=3.12";
    let mut needs = requirements.python.clone();
    needs.extend(lock.into_iter().flat_map(Lock::needs));
    let wish = match lock {
        // Compiled packages are locked for one series.
        Some(lock) => lock
            .python
            .as_ref()
            .map(|series| Need::new(LOCK_FILE, format!("=={series}.*"))),
        None => requirements
            .asks_for_modules
            .then(|| Need::new("std", MODULES)),
    };
    (needs, wish.into_iter().collect())
}

/// The Python of an environment that is there, else one that fits.
pub(super) fn interpreter_for(
    environment: &Path,
    pythons: &Pythons,
    needs: &[Need],
    wishes: &[Need],
) -> Result<Interpreter, Error> {
    let choose = || pythons.choose(needs, wishes).map_err(Error::Python);
    let Some(own) = pythons.ask(&environment.join("bin/python")) else {
        return choose();
    };
    let shown = environment.display();
    let again = |why: String| {
        Error::Python(format!(
            "{why}, which {shown} was made of: remove that folder and install again; {ANOTHER}"
        ))
    };
    if let Some(unmet) = own.unmet(needs) {
        return Err(again(unmet));
    }
    if pythons.named.is_some() {
        let named = choose()?;
        if named.series() != own.series() {
            let (named, own) = (named.version, own.version);
            return Err(Error::Python(format!(
                "Python {named} is named, but {shown} was made of {own}: remove that folder and install again"
            )));
        }
    }
    Ok(own)
}

/// Why a Python may be too old for what an index is going to be asked for; `None`: it is not.
pub(super) fn doubt(python: &Interpreter, wishes: &[Need]) -> Option<String> {
    let unmet = python.unmet(wishes)?;
    Some(format!(
        "{unmet}: only older versions of modules can be installed, if the requirements allow any; {ANOTHER}"
    ))
}

/// What the modules below a directory of the module path ask of Python.
pub(super) fn of_modules(directory: &Path) -> Vec<Need> {
    let mut modules = entries(directory);
    modules.sort();
    let need = |module: PathBuf| {
        let read = |file: &str| yaml::read_file(&module.join(file), &LIMITS).ok();
        let of_toml = |text: String| python_of_toml(&text);
        let of_cfg = |text: String| python_of_cfg(&text);
        let versions = read("pyproject.toml").and_then(of_toml);
        let versions = versions.or_else(|| read("setup.cfg").and_then(of_cfg))?;
        let name = module.file_name()?.to_string_lossy().into_owned();
        Some(Need::new(format!("the module {name}"), versions))
    };
    modules.into_iter().filter_map(need).collect()
}

/// `requires-python` of a `pyproject.toml`.
fn python_of_toml(text: &str) -> Option<String> {
    let file: toml::Table = toml::from_str(text).ok()?;
    let versions = file.get("project")?.get("requires-python")?;
    versions.as_str().map(str::to_owned)
}

/// `python_requires` of a `setup.cfg`.
fn python_of_cfg(text: &str) -> Option<String> {
    let mut options = text.lines().skip_while(|line| line.trim() != "[options]");
    options.next()?;
    let options = options.take_while(|line| !line.starts_with('['));
    let mut options = options.filter_map(|line| line.split_once(['=', ':']));
    let (_, versions) = options.find(|(key, _)| key.trim() == "python_requires")?;
    Some(versions.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_the_project_say_which_python_they_need() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("project.yml", "name: p\nmodulepath: libs\n");
        write(
            "libs/a/setup.cfg",
            "[metadata]\nname = a\n[options]\nzip_safe = False\npython_requires = >=3.12\n[other]\n",
        );
        write(
            "libs/b/pyproject.toml",
            "[project]\nname = \"b\"\nrequires-python = \">=3.13\"\n",
        );
        write("libs/c/setup.cfg", "[metadata]\npython_requires = >=9\n");
        let needs = Requirements::read(dir.path()).unwrap().python;
        let expected = [
            Need::new("the module a", ">=3.12"),
            Need::new("the module b", ">=3.13"),
        ];
        assert_eq!(needs, expected);
    }

    #[test]
    fn a_python_that_is_older_than_std_is_doubted_before_the_index_is_asked() {
        let python = |version: &str| Interpreter {
            path: "/usr/bin/python3".into(),
            version: version.to_owned(),
        };
        let wishes = [Need::new("std", ">=3.12")];
        assert_eq!(doubt(&python("3.12.1"), &wishes), None);
        assert_eq!(doubt(&python("3.11.7"), &[]), None);
        let text = doubt(&python("3.11.7"), &wishes).unwrap();
        assert!(text.starts_with("std needs Python >=3.12"), "{text}");
        assert!(text.contains("3.11.7 (/usr/bin/python3)") && text.contains("--python"));
    }
}
