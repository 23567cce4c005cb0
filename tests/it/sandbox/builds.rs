//! What pip builds is in a sandbox of its own.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    ATTEMPTS, ESCAPE_BUILD, answers, can_sandbox, first_report, other_checkout, server_of,
};
use crate::database::Small;
use crate::harness::Repo;
use crate::packages::source_folder;
use crate::serve::{serve, serve_with};

/// A project with a folder that tries to get out when it is built. Gives a file of another environment's, too.
fn builds_to_escape(repo: &Repo, data: &Path, secret: &Path, plant: Option<&str>) -> PathBuf {
    let other = data.join("python/environments/other/pyvenv.cfg");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::write(&other, "of another").unwrap();
    other_checkout(data);
    repo.write("requirements.txt", "--no-index\n./sources/greet\n");
    let source = repo.path().join("sources/greet");
    source_folder(&source, "1.0");
    let mut package: Value =
        serde_json::from_str(&fs::read_to_string(source.join("package.json")).unwrap()).unwrap();
    package["data"] = data.to_str().into();
    package["secret"] = secret.to_str().into();
    package["other"] = other.to_str().into();
    if let Some(plant) = plant {
        package["plant"] = plant.into();
    }
    repo.write("sources/greet/package.json", &package.to_string());
    repo.write("sources/greet/attempts.py", ATTEMPTS);
    repo.write("sources/greet/escape_build.py", ESCAPE_BUILD);
    repo.write(
        "sources/greet/pyproject.toml",
        "[build-system]\nrequires = []\nbuild-backend = \"escape_build\"\nbackend-path = [\".\"]\n",
    );
    repo.commit("tries to get out of its build");
    other
}

/// What is built where it is installed is code of the repository, too.
///
/// Input: a build backend that does the same (docs/reference/security.md § 4.1, § 4.6). Answer: each attempt is refused; what builds do works.
#[test]
fn builds_do_not_get_out_and_do_what_builds_do() {
    if !can_sandbox() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    let (secret, config) = server_of(home.path(), &repo);
    let data = home.path().join("data");
    let other = builds_to_escape(&repo, &data, &secret, None);
    let variables = [
        ("ONLY_FOR_THE_SERVER", "x"),
        ("PIP_INDEX_URL", "https://user:secret@localhost/simple"),
    ];
    let served = serve_with(home.path(), &config, &variables);
    let report = first_report(&served);
    assert!(report.contains("76 attempts fine"), "{report}");
    assert!(!report.contains("ESCAPED"), "{report}");
    assert!(report.contains("\"76 attempts fine\\n"), "{report}");
    // What it wrote into its source is not in the checkout, which belongs to the commit.
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let checkouts = below(data.join("checkouts")).flat_map(|owner| below(owner.path()));
    let built: Vec<bool> = checkouts
        .filter(|checkout| checkout.path().join("sources/greet").is_dir())
        .map(|checkout| checkout.path().join("sources/greet/build").exists())
        .collect();
    assert_eq!(built, [false]);
    assert_eq!(fs::read_to_string(&other).unwrap(), "of another");
    assert_eq!(fs::read_dir(data.join("python/builds")).unwrap().count(), 0);
}

/// Input: a build that leaves links to secrets in the environment that it installs into (docs/reference/security.md § 4.1). Answer: the installation is refused, the link is named.
#[test]
fn a_build_leaves_no_link_for_the_compile_to_follow() {
    if !can_sandbox() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    let (secret, config) = server_of(home.path(), &repo);
    builds_to_escape(&repo, &home.path().join("data"), &secret, Some("lib/leak"));
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    let told = "a build left a link to what only the server may read: lib/leak";
    assert!(report.contains(told), "{report}");
    assert!(!report.contains("secret-of-the-server"), "{report}");
}

/// A build backend that makes a module of the names in its environment.
const NAMES_BUILD: &str = "import os, pathlib, wheel\n\ndef build_wheel(directory, settings=None, metadata=None):\n    \
    here = pathlib.Path(__file__).parent\n    names = ' '.join(sorted(os.environ))\n    \
    (here / '__init__.py').write_text(f'from inmanta.plugins import plugin\\n@plugin\\ndef version() -> \"string\":\\n    return {names!r}\\n')\n    \
    return wheel.build_wheel(directory)\n";

#[test]
fn builds_get_what_says_where_packages_are_only_where_the_project_asks_for_it() {
    let names = |use_system_config: bool| {
        let home = tempfile::tempdir().unwrap();
        let repo = Repo::new("import greet\nstd::print(greet::version())\n");
        let (_, config) = server_of(home.path(), &repo);
        repo.write(
            "project.yml",
            &format!("name: test\npip: {{use-system-config: {use_system_config}}}\n"),
        );
        repo.write("requirements.txt", "--no-index\n./sources/greet\n");
        source_folder(&repo.path().join("sources/greet"), "1.0");
        repo.write("sources/greet/names_build.py", NAMES_BUILD);
        repo.write(
            "sources/greet/pyproject.toml",
            "[build-system]\nrequires = []\nbuild-backend = \"names_build\"\nbackend-path = [\".\"]\n",
        );
        repo.commit("builds");
        let variables = [
            ("PIP_FIND_LINKS", "/nowhere"),
            ("PIP_LOG", "/nowhere/else"),
            ("GIT_SSL_CAINFO", "/nowhere/ca.pem"),
            ("A_SECRET", "x"),
        ];
        first_report(&serve_with(home.path(), &config, &variables))
    };
    let (with, without) = (names(true), names(false));
    for report in [&with, &without] {
        assert!(report.contains("PIP_CACHE_DIR"), "{report}");
        assert!(report.contains("GIT_SSL_CAINFO"), "{report}");
        assert!(!report.contains("A_SECRET"), "{report}");
        assert!(!report.contains("PIP_LOG"), "{report}");
    }
    assert!(with.contains("PIP_FIND_LINKS"), "{with}");
    assert!(!without.contains("PIP_FIND_LINKS"), "{without}");
}

/// Input: a project whose index, and one whose required repository, is named with a password and does not have it (docs/reference/security.md § 3.37). Answer: the report says what failed, without user and password.
#[test]
fn reports_of_installations_have_no_password_of_an_index_or_repository() {
    let port = answers("nothing of use");
    for (index, requirement) in [
        (
            format!("http://who:a-password@127.0.0.1:{port}/simple"),
            "nothing-of-that-name".to_owned(),
        ),
        (
            format!("http://127.0.0.1:{port}/simple"),
            format!("greet @ git+http://who:a-password@127.0.0.1:{port}/greet.git"),
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let repo = Repo::new("x = 1\n");
        let (_, config) = server_of(home.path(), &repo);
        let project = format!("name: test\nmodulepath: libs\npip:\n  index_url: {index}\n");
        repo.write("project.yml", &project);
        repo.write("requirements.txt", &format!("{requirement}\n"));
        repo.commit("needs what is not there");
        let served = serve(home.path(), &config);
        let report = first_report(&served);
        assert!(report.contains("\"success\":false"), "{report}");
        assert!(!report.contains("a-password"), "{report}");
        assert!(!report.contains("who:"), "{report}");
    }
}

/// A build backend that writes without end.
const FILLS: &str = r#"
import os, pathlib, tempfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = pathlib.Path(tempfile.mkdtemp())
    for n in range(100_000):
        (folder / str(n)).write_bytes(os.urandom(1 << 20))
"#;

/// Input: a build that writes until the disk is full (docs/reference/security.md § 3.33). Answer: it is stopped before that, what it wrote is removed, and the server works on.
#[test]
fn a_build_is_stopped_before_it_has_filled_the_disk() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let Some(_small) = Small::mount(&data, "400m") else {
        return;
    };
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    let (_, config) = server_of(home.path(), &repo);
    repo.write("requirements.txt", "--no-index\n./sources/greet\n");
    source_folder(&repo.path().join("sources/greet"), "1.0");
    repo.write("sources/greet/fills.py", FILLS);
    repo.write(
        "sources/greet/pyproject.toml",
        "[build-system]\nrequires = []\nbuild-backend = \"fills\"\nbackend-path = [\".\"]\n",
    );
    repo.commit("fills the disk in its build");
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    let why = "MiB were left on the disk of";
    assert!(
        report.contains(why) && report.contains("what it wrote is removed"),
        "{report}"
    );
    assert_eq!(served.health(), 200);
    let free = rustix::fs::statvfs(&data).unwrap();
    let free = free.f_bavail * free.f_frsize;
    assert!(free > 300 << 20, "{free} bytes are free");
}

/// What copies is started by pip, in its sandbox, and found in the folders of the system only: not in the environment, where
/// a build could leave a program of that name.
///
/// Input: requirements that other version controls than git are to copy: `hg+`, `svn+`, `bzr+`, with options in the place of hosts (docs/reference/security.md § 3.14). Answer: where the machine has no such program, the report names the requirement; nothing else is run.
#[test]
fn other_version_controls_are_looked_for_in_the_system_only() {
    use std::os::unix::fs::PermissionsExt;
    if ["hg", "svn", "bzr"]
        .iter()
        .any(|name| Path::new("/usr/bin").join(name).exists())
    {
        return;
    }
    for requirement in [
        "hg+https://localhost:9/greet",
        "hg+ssh://-oProxyCommand=touch%20ran/greet",
        "svn+ssh://-oProxyCommand=touch%20ran/greet",
        "bzr+https://localhost:9/greet",
    ] {
        let home = tempfile::tempdir().unwrap();
        let repo = Repo::new("x = 1\n");
        let (_, config) = server_of(home.path(), &repo);
        let index = "name: test\nmodulepath: libs\npip: {index_url: http://localhost:9/simple}\n";
        repo.write("project.yml", index);
        repo.write("requirements.txt", &format!("greet @ {requirement}\n"));
        repo.commit("needs what another version control copies");
        let programs = home.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for program in ["hg", "svn", "bzr"] {
            let program = programs.join(program);
            fs::write(&program, "#!/bin/sh\necho IT RAN >&2\nexit 1\n").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let served = serve_with(home.path(), &config, &[("PATH", &path)]);
        let report = first_report(&served);
        assert!(report.contains("\"success\":false"), "{report}");
        assert!(
            report.contains("Cannot find command") || report.contains("greet @"),
            "{report}"
        );
        assert!(!report.contains("IT RAN"), "{report}");
        assert_eq!(served.health(), 200);
    }
}
