//! The Python packages that one module says it requires.

use std::path::Path;

use steward_compiler::yaml::{self, LIMITS};

/// The requirements of the module at `root`, which is a folder of the module path or that of an installed package: those of
/// its `requirements.txt`, if it is of the first generation, else those of its `pyproject.toml` or `setup.cfg`. Lines are as
/// they stand there; comments are left out.
pub fn requirements_of_module(root: &Path) -> Vec<String> {
    let read = |file: &str| yaml::read_file(&root.join(file), &LIMITS).ok();
    let lines = |text: &str| text.lines().map(str::to_owned).collect();
    let found: Vec<String> = if root.join("module.yml").is_file() {
        read("requirements.txt").map_or_else(Vec::new, |text| lines(&text))
    } else {
        let of_toml = read("pyproject.toml").and_then(|text| of_toml(&text));
        let of_cfg = || read("setup.cfg").map(|text| of_cfg(&text));
        of_toml.or_else(of_cfg).unwrap_or_default()
    };
    let plain = found.iter().map(|line| without_comment(line).trim());
    let plain = plain.filter(|line| !line.is_empty());
    plain.map(str::to_owned).collect()
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
}
