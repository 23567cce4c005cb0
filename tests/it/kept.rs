//! What commands keep between them in the user's cache: who the Pythons of the machine are, and what modules declare.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::steward;

/// A user with a project, and a path whose `python3` is a script that chooses one, as a version manager's is.
struct User {
    folder: tempfile::TempDir,
}

const MODEL: &str = "entity Thing extends std::Resource:\n    string name\n    string agent\nend\n\
                     implement Thing using std::none\n";
const PLUGINS: &str = "from inmanta.resources import Resource, resource\n\n\
                       @resource('m::Thing', id_attribute='name', agent='agent')\n\
                       class Thing(Resource):\n    fields = ('name',)\n";

/// The program itself, behind whatever chooses it.
fn real_python() -> PathBuf {
    let named = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(named);
    let output = command
        .args(["-I", "-c", "import sys; print(sys.executable)"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().into()
}

impl User {
    fn new() -> Self {
        let user = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        user.write("project/project.yml", "name: kept\nmodulepath: libs\n");
        user.write(
            "project/main.cf",
            "import m\nm::Thing(name='a', agent='x')\n",
        );
        user.write(
            "project/libs/m/module.yml",
            "name: m\nversion: 1.0.0\nlicense: X\n",
        );
        user.write("project/libs/m/model/_init.cf", MODEL);
        user.write("project/libs/m/plugins/__init__.py", PLUGINS);
        // A home directory that is not there is none.
        user.write("home/.profile", "");
        user.write_script("");
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn write_script(&self, comment: &str) {
        let (log, python) = (self.path("log"), real_python());
        let text = format!(
            "#!/bin/sh\n# {comment}\necho asked >> '{}'\nexec '{}' \"$@\"\n",
            log.display(),
            python.display()
        );
        self.write("bin/python3", &text);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path("bin/python3"), mode).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = steward();
        command
            .current_dir(self.path("project"))
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.path("bin").display()),
            )
            .env("HOME", self.path("home"));
        command
    }

    /// Compiles; how often the script was run for it.
    #[track_caller]
    fn n_asked(&self, command: &mut Command) -> usize {
        let n_lines = || {
            fs::read_to_string(self.path("log"))
                .unwrap_or_default()
                .lines()
                .count()
        };
        let before = n_lines();
        let out = self.path("out.json");
        let _ = fs::remove_file(&out);
        command.arg("compile").arg("--export-json").arg(&out);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(
            fs::read_to_string(out)
                .unwrap()
                .contains("m::Thing[x,name=a]")
        );
        n_lines() - before
    }

    fn kept(&self, name: &str) -> Vec<PathBuf> {
        let folder = self.path("home/.cache/steward").join(name);
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

#[test]
fn a_script_that_chooses_a_python_is_asked_again_when_what_it_goes_by_changes() {
    let user = User::new();
    assert_eq!(user.n_asked(&mut user.command()), 1);
    assert_eq!(user.n_asked(&mut user.command()), 0);
    // Another variable.
    assert_eq!(user.n_asked(user.command().env("PYENV_VERSION", "3.13")), 1);
    assert_eq!(user.n_asked(user.command().env("PYENV_VERSION", "3.13")), 0);
    assert_eq!(user.n_asked(&mut user.command()), 0);
    // A file in which a version is named, above the working directory.
    user.write(".python-version", "3.12\n");
    assert_eq!(user.n_asked(&mut user.command()), 1);
    assert_eq!(user.n_asked(&mut user.command()), 0);
    // Another working directory.
    let mut elsewhere = user.command();
    elsewhere.current_dir(user.path("project/libs"));
    assert_eq!(user.n_asked(&mut elsewhere), 1);
    // Another script.
    user.write_script("of a newer version");
    assert_eq!(user.n_asked(&mut user.command()), 1);
    assert_eq!(user.n_asked(&mut user.command()), 0);
}

#[test]
fn what_modules_declare_is_kept_where_only_its_user_can_read_it_and_does_without_it() {
    let user = User::new();
    // What was written just now is not kept.
    std::thread::sleep(Duration::from_millis(150));
    user.n_asked(&mut user.command());
    let kept = user.kept("declarations");
    let [kept]: &[PathBuf; 1] = kept.as_slice().try_into().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(kept), mode(kept.parent().unwrap())), (0o600, 0o700));
    user.n_asked(&mut user.command());
    fs::write(kept, "damaged").unwrap();
    user.n_asked(&mut user.command());
    assert_ne!(fs::read(kept).unwrap(), b"damaged");
    // A cache that can not be written is no reason to fail.
    fs::remove_dir_all(kept.parent().unwrap()).unwrap();
    fs::write(kept.parent().unwrap(), "in the way").unwrap();
    user.n_asked(&mut user.command());
}

/// Given: a project that is exported. Expected: what its modules declare is kept as by a compile, and does for the next command.
#[test]
fn an_export_keeps_what_a_compile_keeps() {
    let user = User::new();
    // What was written just now is not kept.
    std::thread::sleep(Duration::from_millis(150));
    let export = || {
        let out = user.path("exported.json");
        let mut command = user.command();
        command.arg("export").arg("-j").arg(&out);
        let output = command.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{shown}");
        fs::read_to_string(out).unwrap()
    };
    let first = export();
    let kept = user.kept("declarations");
    let [kept]: &[PathBuf; 1] = kept.as_slice().try_into().unwrap();
    // A file that is written anew takes the place of the one before; what is only used gets another time.
    let file = fs::metadata(kept).unwrap().ino();
    assert_eq!(export(), first);
    assert_eq!(fs::metadata(kept).unwrap().ino(), file);
}
