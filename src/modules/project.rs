//! What a project asks for.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use steward_compiler::is_carried;
use steward_compiler::yaml::{self, LIMITS, Value};

use super::{Error, LOCK_FILE, Lock, logins, needs, requirements_of_module};
use crate::domain::{
    HandlerPackages, PipOptions, check_requirement, module_of_requirement, name_of_requirement,
};
use crate::python::Need;

/// Module names of the language, as packages.
const PACKAGE: &str = "inmanta-module-";
/// What a distribution of ours stands in for, whatever is installed.
const CORE: &str = "inmanta-core";

/// What a project asks for, and where to look for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Requirements {
    /// Requirement files, in the order in which they count.
    pub files: Vec<PathBuf>,
    /// What modules of the module path that are packages require, but for what is there without being installed: a line each.
    pub lines: Vec<String>,
    /// Constraints on modules, as pip reads them.
    pub constraints: Vec<String>,
    pub pip: PipOptions,
    /// Lines of the files that say where to look.
    pub sources: Vec<String>,
    /// Repositories that lines of the files name.
    pub repositories: Vec<String>,
    /// The files, with what is in them, whose lines name URLs with a password; those that others include are among them.
    pub with_logins: Vec<(PathBuf, String)>,
    /// Parts of the project are asked for.
    pub in_project: bool,
    /// Modules of the language are asked for by the names of their packages.
    pub asks_for_modules: bool,
    /// Lines of the files have options that only pip knows.
    pub needs_pip: bool,
    /// What the modules of the project itself ask of Python.
    pub python: Vec<Need>,
    /// The digest of what is asked for: `sha256:…`.
    pub digest: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectFile {
    requires: Option<Value>,
    modulepath: Option<Value>,
    pip: Option<PipOptions>,
}

/// What a server must know of a project before it installs anything: read by a sandboxed worker, since the files are a
/// repository's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inspection {
    pub requirements: Requirements,
    /// `None`: the project has no lock.
    pub lock: Option<Lock>,
}

impl Inspection {
    /// # Errors
    /// A file is unreadable or wrong, or the lock is not one of these requirements.
    pub fn read(project: &Path) -> Result<Self, Error> {
        let requirements = Requirements::read(project)?;
        let lock = Lock::read(project)?;
        if let Some(lock) = &lock
            && lock.requirements != requirements.digest
        {
            return Err(Error::Project(format!(
                "{LOCK_FILE} was made for other requirements than those of this commit: run `steward project update` in the project, and commit what it writes"
            )));
        }
        Ok(Self { requirements, lock })
    }
}

impl Requirements {
    /// # Errors
    /// A file is unreadable, or `project.yml` is not one.
    pub fn read(project: &Path) -> Result<Self, Error> {
        let path = project.join("project.yml");
        let text = yaml::read_file(&path, &LIMITS).map_err(|error| match error.kind() {
            // Not something that comes back by itself, as long as the project is there.
            ErrorKind::NotFound if project.is_dir() => Error::Project(
                "there is no project.yml: a project has one beside its main.cf".to_owned(),
            ),
            ErrorKind::InvalidData => Error::Project("project.yml is not UTF-8".to_owned()),
            // No plain file, or a large one.
            ErrorKind::Other => Error::Project(format!("project.yml cannot be read: {error}")),
            _ => Error::io(format!("cannot read {}", path.display()))(error),
        })?;
        let file: ProjectFile = yaml::from_str(&text, &LIMITS)
            .map_err(|error| Error::Project(format!("project.yml: {error}")))?;
        let constraints = strings(file.requires.as_ref())
            .iter()
            .map(|text| constraint(text))
            .collect();
        let mut files = vec![project.join("requirements.txt")];
        let (mut python, mut packages) = (Vec::new(), Vec::new());
        for directory in strings(file.modulepath.as_ref()) {
            let directory = project.join(directory);
            files.extend(of_modules(&directory));
            python.extend(needs::of_modules(&directory));
            packages.extend(packages_in(&directory));
        }
        files.retain(|file| file.is_file());
        let mut requirements = Self {
            files,
            lines: required_by(&packages)?,
            constraints,
            pip: file.pip.unwrap_or_default(),
            sources: Vec::new(),
            repositories: Vec::new(),
            with_logins: Vec::new(),
            in_project: false,
            asks_for_modules: false,
            needs_pip: false,
            python,
            digest: String::new(),
        };
        requirements.read_files(project)?;
        Ok(requirements)
    }

    /// What handlers of an exported version ask for, written into `folder`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn of_handlers(folder: &Path, packages: &HandlerPackages) -> Result<Self, Error> {
        let file = folder.join("requirements.txt");
        let lines = packages.requirements.iter();
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, text)
            .map_err(Error::io(format!("cannot write {}", file.display())))?;
        let mut requirements = Self {
            files: vec![file],
            lines: Vec::new(),
            constraints: packages.constraints.iter().cloned().collect(),
            pip: packages.pip.clone(),
            sources: Vec::new(),
            repositories: Vec::new(),
            with_logins: Vec::new(),
            in_project: false,
            asks_for_modules: false,
            needs_pip: false,
            python: Vec::new(),
            digest: String::new(),
        };
        requirements.read_files(folder)?;
        Ok(requirements)
    }

    /// Nothing is to be installed.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.lines.is_empty()
    }

    /// Whether the project names a place that packages come from.
    pub(super) fn says_where_from(&self) -> bool {
        let pip = &self.pip;
        pip.use_system_config || pip.index_url.is_some() || !self.sources.is_empty()
    }

    fn read_files(&mut self, project: &Path) -> Result<(), Error> {
        let mut hasher = Sha256::new();
        let mut part = |text: &str| steward_compiler::add_part(&mut hasher, text);
        let mut is_empty = true;
        let files = self.files.iter().rev();
        // With the line that names it, of a file that another one includes.
        let mut open: Vec<(PathBuf, Option<String>)> =
            files.map(|file| (file.clone(), None)).collect();
        let mut seen = Vec::new();
        while let Some((file, named_by)) = open.pop() {
            // One file has many paths.
            let real = std::fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
            if seen.contains(&real) {
                continue;
            }
            let name = file.strip_prefix(project).unwrap_or(&file);
            let name = name.to_string_lossy().into_owned();
            let text = read_plain(&file).map_err(|error| unreadable(&name, named_by, error))?;
            part(&name);
            let mut has_logins = false;
            for (n_before, line) in text.lines().map(str::trim).enumerate() {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                is_empty = false;
                part(line);
                self.sources.extend(source(&file, line));
                self.repositories.extend(repository(line));
                has_logins |= logins::are_in(line);
                self.in_project |= is_in_project(line);
                self.asks_for_modules |= line.starts_with(PACKAGE);
                self.needs_pip |= is_option_of_pip(line);
                let place = || Some(format!("{name}:{}", n_before + 1));
                open.extend(included(&file, line).map(|other| (other, place())));
            }
            if has_logins {
                self.with_logins.push((name.into(), text));
            }
            seen.push(real);
        }
        if !self.says_where_from() {
            // The Python that compiles may have it all, as it may have what nobody names.
            self.lines.clear();
        }
        for line in &self.lines {
            part("a module of the module path");
            part(line);
            self.repositories.extend(repository(line));
            self.asks_for_modules |= line.starts_with(PACKAGE);
        }
        self.constraints.iter().for_each(|text| part(text));
        part(self.pip.index_url.as_deref().unwrap_or_default());
        self.pip.extra_index_url.iter().for_each(|url| part(url));
        part(match self.pip.pre {
            Some(true) => "pre",
            _ => "",
        });
        self.digest = format!("sha256:{}", hex::encode(hasher.finalize()));
        if is_empty {
            self.files.clear();
        }
        Ok(())
    }
}

/// The text of a file that a repository names, which may be any: no device, nothing endless.
fn read_plain(path: &Path) -> std::io::Result<String> {
    const MOST_BYTES: u64 = 4 << 20;
    let real = std::fs::canonicalize(path)?;
    let is_plain = ["/dev", "/proc", "/sys"]
        .iter()
        .all(|folder| !real.starts_with(folder));
    if !is_plain || !real.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no plain file"));
    }
    steward_compiler::plain_file::read_text(&real, MOST_BYTES)
}

/// A line that says where to look; folders are relative to its file.
fn source(file: &Path, line: &str) -> Option<String> {
    let (option, value) = line.split_once(['=', ' ']).unwrap_or((line, ""));
    let value = value.trim();
    match option {
        "--no-index" | "--index-url" | "-i" | "--extra-index-url" | "--trusted-host" => {
            Some(line.to_owned())
        }
        "--find-links" | "-f" => {
            let folder = file.with_file_name(value);
            let value = match folder.exists() {
                true => folder.to_string_lossy().into_owned(),
                false => value.to_owned(),
            };
            Some(format!("--find-links {value}"))
        }
        _ => None,
    }
}

/// `named_by`: the line that includes the file. That it is not there is a mistake of the project, which no second attempt mends.
fn unreadable(name: &str, named_by: Option<String>, error: std::io::Error) -> Error {
    match named_by {
        Some(place) if error.kind() == ErrorKind::NotFound => {
            Error::Project(format!("{place}: there is no file {name} in the project"))
        }
        _ => Error::io(format!("cannot read {name}"))(error),
    }
}

/// The repository of a line `name @ git+URL@commit#subdirectory=…`.
fn repository(line: &str) -> Option<String> {
    let (_, behind) = line.split_once("git+")?;
    let url = behind.split([' ', '#', ';']).next()?;
    let path = url.rfind('/')?;
    let end = url[path..].find('@').map_or(url.len(), |at| path + at);
    Some(url[..end].to_owned())
}

/// A line with an option that other programs than pip do not know.
fn is_option_of_pip(line: &str) -> bool {
    const COMMON: [&str; 12] = [
        "-r",
        "--requirement",
        "-c",
        "--constraint",
        "-e",
        "--editable",
        "-i",
        "--index-url",
        "--extra-index-url",
        "-f",
        "--find-links",
        "--no-index",
    ];
    let option = line.split(['=', ' ']).next().unwrap_or(line);
    option.starts_with('-') && !COMMON.contains(&option)
}

/// Another file that a line includes, as requirements or constraints.
fn included(file: &Path, line: &str) -> Option<PathBuf> {
    let (option, value) = line.split_once(['=', ' '])?;
    let includes = ["-r", "--requirement", "-c", "--constraint"].contains(&option);
    includes.then(|| file.with_file_name(value.trim()))
}

fn is_in_project(line: &str) -> bool {
    let editable = line.starts_with("-e ") || line.starts_with("--editable");
    editable || line.starts_with('.') || line.contains("file:.")
}

/// The requirement files of the v1 modules below a directory of the module path.
fn of_modules(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.path().join("module.yml").is_file())
        .map(|entry| entry.path().join("requirements.txt"))
        .collect();
    files.sort();
    files
}

/// The modules below a directory of the module path that are packages, by name.
fn packages_in(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_package = |root: &Path| {
        let has = |name: &str| root.join(name).is_file();
        !has("module.yml") && (has("setup.cfg") || has("pyproject.toml"))
    };
    let mut packages: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|root| is_package(root))
        .filter_map(|root| Some((root.file_name()?.to_str()?.to_owned(), root)))
        .collect();
    packages.sort();
    packages
}

/// What modules require that is to be installed: other than each other, what this program carries, and what stands in for
/// `inmanta-core`.
///
/// # Errors
/// A requirement is none; the text names its module.
fn required_by(packages: &[(String, PathBuf)]) -> Result<Vec<String>, Error> {
    let is_there = |line: &str| match module_of_requirement(line) {
        Some(module) => is_carried(&module) || packages.iter().any(|(name, _)| *name == module),
        None => name_of_requirement(line)
            .replace(['_', '.'], "-")
            .eq_ignore_ascii_case(CORE),
    };
    let mut lines = Vec::new();
    for (name, root) in packages {
        for line in requirements_of_module(root) {
            if is_there(&line) || lines.contains(&line) {
                continue;
            }
            check_requirement(&line)
                .map_err(|why| Error::Project(format!("the module {name} requires {why}")))?;
            lines.push(line);
        }
    }
    Ok(lines)
}

/// `net ~= 1.2` is `inmanta-module-net ~= 1.2`.
fn constraint(text: &str) -> String {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .unwrap_or(text.len());
    let (name, versions) = text.split_at(end);
    format!("{PACKAGE}{}{versions}", name.trim().replace('_', "-"))
}

fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Sequence(items)) => items
            .iter()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

/// For fuzzing: a text as `project.yml` and as a requirements file.
pub fn read_any(text: &str) {
    if let Ok(file) = yaml::from_str::<ProjectFile>(text, &LIMITS) {
        let asked = strings(file.requires.as_ref());
        let _: Vec<String> = asked.iter().map(|text| constraint(text)).collect();
        let _ = strings(file.modulepath.as_ref());
    }
    let file = Path::new("requirements.txt");
    for line in text.lines().map(str::trim) {
        let _ = (source(file, line), repository(line), included(file, line));
        let _ = is_in_project(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_without_its_file_is_a_mistake_and_a_folder_that_is_gone_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let of = |project: &Path| Requirements::read(project).err().unwrap();
        assert!(!of(dir.path()).is_transient());
        assert!(of(dir.path()).to_string().contains("no project.yml"));
        assert!(of(&dir.path().join("gone")).is_transient());
        std::fs::write(dir.path().join("project.yml"), b"\xff").unwrap();
        assert!(!of(dir.path()).is_transient());
    }

    /// Modules of the module path need no installation of their own, but what they require does.
    #[test]
    fn what_packages_of_the_module_path_require_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let index = "name: p\nmodulepath: libs\npip: {index-url: https://index}\n";
        write("project.yml", index);
        write(
            "libs/dns/setup.cfg",
            "[metadata]\nname = inmanta-module-dns\n[options]\ninstall_requires =\n    inmanta-module-std\n    \
             inmanta-module-lsm>=1\n    inmanta_core\n    inmanta-module-web-site\n",
        );
        write(
            "libs/web_site/pyproject.toml",
            "[project]\nname = 'inmanta-module-web-site'\ndependencies = []\n",
        );
        let read = || Requirements::read(dir.path());
        let plain = read().unwrap();
        assert!(plain.is_empty(), "all of it is there: {:?}", plain.lines);
        write(
            "libs/web_site/pyproject.toml",
            "[project]\nname = 'inmanta-module-web-site'\ndependencies = ['requests[socks]>=2', 'inmanta-module-ip']\n",
        );
        let asked = read().unwrap();
        assert_eq!(asked.lines, ["requests[socks]>=2", "inmanta-module-ip"]);
        assert!(!asked.is_empty() && asked.asks_for_modules);
        assert_ne!(asked.digest, plain.digest);
        write("project.yml", "name: p\nmodulepath: libs\n");
        assert!(
            read().unwrap().is_empty(),
            "there is nowhere to install from"
        );
        write("project.yml", index);
        write(
            "libs/dns/setup.cfg",
            "[metadata]\nname = inmanta-module-dns\n[options]\ninstall_requires = --index-url=http://other\n",
        );
        let error = read().unwrap_err().to_string();
        assert!(
            error.contains("the module dns") && error.contains("options of pip"),
            "{error}"
        );
    }

    #[test]
    fn a_requirement_names_its_repository() {
        for (line, url) in [
            ("git+https://host/a.git", "https://host/a.git"),
            ("a @ git+https://host/a.git@main", "https://host/a.git"),
            (
                "git+ssh://git@host:22/b@1.0#subdirectory=x",
                "ssh://git@host:22/b",
            ),
            (
                "a @ git+http://host/.git ; python_version > '3'",
                "http://host/.git",
            ),
        ] {
            assert_eq!(repository(line).as_deref(), Some(url), "{line}");
        }
        for line in ["a ~= 1.0", "a @ https://host/a.whl", "./git/a"] {
            assert_eq!(repository(line), None, "{line}");
        }
    }

    #[test]
    fn a_project_says_what_it_asks_for() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "project.yml",
            "name: p\nmodulepath: libs\nrequires: [net_x ~= 1.2, 'web']\npip:\n  index-url: https://index\n  use_system_config: true\n",
        );
        write("libs/one/module.yml", "name: one\nversion: '1'\n");
        write("libs/one/requirements.txt", "# nothing\nrequests>=2\n");
        write("libs/none/requirements.txt", "not a module\n");
        let read = || Requirements::read(dir.path()).unwrap();
        let first = read();
        assert_eq!(
            first.constraints,
            ["inmanta-module-net-x ~= 1.2", "inmanta-module-web"]
        );
        assert_eq!(first.files, [dir.path().join("libs/one/requirements.txt")]);
        assert_eq!(first.pip.index_url.as_deref(), Some("https://index"));
        assert!(first.pip.use_system_config && first.sources.is_empty());
        // Under ever longer paths it is still the same file.
        write(
            "requirements.txt",
            "-r libs/../requirements.txt\n-r ./more.txt\n-r libs/../more.txt\n",
        );
        write("more.txt", "inmanta-module-web\n");
        assert!(!read().is_empty());
        std::fs::remove_file(dir.path().join("requirements.txt")).unwrap();
        // A comment is no requirement.
        write("libs/one/requirements.txt", "requests>=2\n");
        assert_eq!(read().digest, first.digest);
        write("requirements.txt", "--no-index\ninmanta-module-web\n");
        assert_ne!(read().digest, first.digest);
        assert_eq!(read().sources, ["--no-index"]);
        write("requirements.txt", "-r more.txt\n");
        write("more.txt", "./libs/one\n");
        let more = read();
        assert!(more.in_project);
        write("more.txt", "one\n");
        assert_ne!(read().digest, more.digest);
        assert!(!read().in_project);
        for endless in ["/dev/zero", "/proc/self/environ", "libs"] {
            write("requirements.txt", &format!("-r {endless}\n"));
            let error = Requirements::read(dir.path()).unwrap_err().to_string();
            assert!(error.contains("no plain file"), "{error}");
        }
        write("requirements.txt", "# two\n-r nope.txt\n");
        let error = Requirements::read(dir.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "requirements.txt:2: there is no file nope.txt in the project"
        );
        write("requirements.txt", "# later\n");
        write("libs/one/requirements.txt", "");
        assert!(read().is_empty());
    }
}
