//! The Python packages that one module says it requires.

use std::path::{Path, PathBuf};

use steward_compiler::yaml::{self, LIMITS};

use crate::domain::module_of_requirement;

/// The requirements of the module at `root`, which is a folder of the module path or that of an installed package: those of
/// its `requirements.txt`, if it is of the first generation, else those of the metadata that it was installed with, of its
/// `pyproject.toml` or its `setup.cfg`. Lines are as they stand there; comments are left out.
pub fn requirements_of_module(root: &Path) -> Vec<String> {
    let read = |file: &Path| yaml::read_file(file, &LIMITS).ok();
    let found: Vec<String> = if root.join("module.yml").is_file() {
        let text = read(&root.join("requirements.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    } else {
        let of_folder = |folder: &Path| {
            let of_toml = read(&folder.join("pyproject.toml")).and_then(|text| of_toml(&text));
            of_toml.or_else(|| read(&folder.join("setup.cfg")).map(|text| of_cfg(&text)))
        };
        let installed = metadata_of(root).and_then(|file| read(&file));
        let installed = installed.map(|text| of_metadata(&text));
        // The sources of a module have their metadata beside `inmanta_plugins`.
        let of_sources = || of_folder(&root.join("../.."));
        let found = installed.or_else(|| of_folder(root)).or_else(of_sources);
        found.unwrap_or_default()
    };
    let plain = found.iter().map(|line| without_comment(line).trim());
    let plain = plain.filter(|line| !line.is_empty());
    plain.map(str::to_owned).collect()
}

/// The metadata that the module at `root` was installed with: those of its distribution, beside `inmanta_plugins`.
fn metadata_of(root: &Path) -> Option<PathBuf> {
    let name = root.file_name()?.to_str()?;
    let packages = root
        .parent()
        .filter(|parent| parent.ends_with("inmanta_plugins"));
    let entries = std::fs::read_dir(packages?.parent()?).ok()?;
    let is_its_own = |entry: &std::fs::DirEntry| {
        let folder = entry.file_name();
        let stem = folder
            .to_str()
            .and_then(|folder| folder.strip_suffix(".dist-info"));
        let distribution = stem
            .and_then(|stem| stem.split_once('-'))
            .map(|(name, _)| name);
        distribution.and_then(module_of_requirement).as_deref() == Some(name)
    };
    let found = entries.flatten().find(is_its_own)?;
    Some(found.path().join("METADATA"))
}

/// What a distribution requires by its metadata, whatever is optional left out.
fn of_metadata(text: &str) -> Vec<String> {
    let heads = text.lines().take_while(|line| !line.is_empty());
    let required = heads.filter_map(|line| line.strip_prefix("Requires-Dist:"));
    let required = required.filter(|line| !line.contains("extra =="));
    required.map(|line| line.trim().to_owned()).collect()
}

/// pip's comments begin a line, or stand behind a blank.
fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') {
        return "";
    }
    line.split_once(" #").map_or(line, |(line, _)| line)
}

/// `dependencies` of a `pyproject.toml`.
fn of_toml(text: &str) -> Option<Vec<String>> {
    let file: toml::Table = toml::from_str(text).ok()?;
    let listed = file.get("project")?.get("dependencies")?.as_array()?;
    let texts = listed.iter().filter_map(|one| one.as_str());
    Some(texts.map(str::to_owned).collect())
}

/// `install_requires` of a `setup.cfg`: on one line separated by `;`, or on the lines below it, which are indented.
fn of_cfg(text: &str) -> Vec<String> {
    let options = text.lines().skip_while(|line| line.trim() != "[options]");
    let options = options.skip(1).take_while(|line| !line.starts_with('['));
    let mut options = options.skip_while(|line| !line.starts_with("install_requires"));
    let Some((_, first)) = options.next().and_then(|line| line.split_once(['=', ':'])) else {
        return Vec::new();
    };
    let first = first.split(';').map(str::to_owned);
    let is_inside = |line: &&str| line.trim().is_empty() || line.starts_with([' ', '\t', '#']);
    let below = options.take_while(is_inside).map(str::to_owned);
    first.chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_of_each_kind_says_what_it_requires() {
        let dir = tempfile::tempdir().unwrap();
        let of = |file: &str, text: &str| {
            std::fs::write(dir.path().join(file), text).unwrap();
            requirements_of_module(dir.path())
        };
        assert_eq!(
            of("setup.cfg", "[metadata]\nname = a\n"),
            Vec::<String>::new()
        );
        let cfg = "[options]\nzip_safe = False\ninstall_requires =\n    a >= 1\n    # no\n    b ; python_version > \"3\"\n\
                   packages = x\n[options.other]\ninstall_requires = c\n";
        assert_eq!(
            of("setup.cfg", cfg),
            ["a >= 1", "b ; python_version > \"3\""]
        );
        assert_eq!(
            of("setup.cfg", "[options]\ninstall_requires = a; b>2\n"),
            ["a", "b>2"]
        );
        let toml = "[project]\nname = \"a\"\ndependencies = [\"c~=1.0\"]\n";
        assert_eq!(of("pyproject.toml", toml), ["c~=1.0"]);
        let text = "# all of it\n\ntexttable>=1  # tables\n";
        of("requirements.txt", text);
        assert_eq!(of("module.yml", "name: a\n"), ["texttable>=1"]);
    }

    #[test]
    fn a_module_that_is_installed_requires_what_its_distribution_says() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let root = dir.path().join("inmanta_plugins/my_net");
        write("inmanta_plugins/my_net/__init__.py", "");
        assert_eq!(requirements_of_module(&root), Vec::<String>::new());
        write("setup.cfg", "[options]\ninstall_requires = of-sources\n");
        assert_eq!(requirements_of_module(&root), ["of-sources"]);
        write(
            "inmanta_module_net-1.0.dist-info/METADATA",
            "Requires-Dist: no\n",
        );
        let metadata = "Metadata-Version: 2.1\nName: x\nRequires-Dist: a (>=1)\nRequires-Dist: b>2 ; python_version > \"3\"\n\
                        Requires-Dist: c ; extra == 'dev'\n\nRequires-Dist: text\n";
        write("inmanta_module_my_net-1.0.dist-info/METADATA", metadata);
        assert_eq!(
            requirements_of_module(&root),
            ["a (>=1)", "b>2 ; python_version > \"3\""]
        );
    }
}
