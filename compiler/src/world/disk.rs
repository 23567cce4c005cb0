//! A project on disk.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::roots::{Roots, Want};
use super::{PythonPackages, World};
use crate::Variables;

/// No file of a project may be larger: 64 MiB.
const MAX_FILE_BYTES: u64 = 64 << 20;

type Print = Box<dyn FnMut(&str) + Send>;

/// A project on disk. A person's own may name files anywhere; one that is [`contained`](DirWorld::contained) is read below
/// its directory and its virtual environment only, whatever its links, paths and metadata say.
pub struct DirWorld {
    project_dir: PathBuf,
    env: Variables,
    print: Mutex<Print>,
    environment: Option<String>,
    outer_environment: Option<String>,
    packages: Option<Arc<dyn PythonPackages>>,
    carried: Option<PathBuf>,
    roots: Option<Roots>,
}

impl DirWorld {
    /// The project at a path, with these environment variables. `print` gets each line that the
    /// model prints, without its line feed.
    pub fn new(
        project_dir: PathBuf,
        env: Variables,
        print: impl FnMut(&str) + Send + 'static,
    ) -> Self {
        let project_dir = std::path::absolute(&project_dir).unwrap_or(project_dir);
        DirWorld {
            project_dir,
            env,
            print: Mutex::new(Box::new(print)),
            environment: None,
            outer_environment: None,
            packages: None,
            carried: None,
            roots: None,
        }
    }

    /// The modules of the project are in the virtual environment at `path`.
    pub fn with_environment(self, path: Option<&Path>) -> Self {
        DirWorld {
            environment: path.map(|path| path.to_string_lossy().into_owned()),
            ..self
        }
    }

    /// What is installed beside the Python that runs where the project has no environment: its files are at
    /// `environment`, if they can be read, and `packages` is asked for what they do not say.
    pub fn with_packages(
        self,
        environment: Option<&Path>,
        packages: Arc<dyn PythonPackages>,
    ) -> Self {
        DirWorld {
            outer_environment: environment.map(|path| path.to_string_lossy().into_owned()),
            packages: Some(packages),
            ..self
        }
    }

    /// The modules of ours that have Python code are in the folder at `path`.
    pub fn with_carried(self, path: PathBuf) -> Self {
        DirWorld {
            carried: Some(path),
            ..self
        }
    }

    /// The same project, in which nothing outside of its directory, its virtual environment and our own modules is
    /// found.
    pub fn contained(self) -> Self {
        let own = self.environment.as_ref().map(PathBuf::from);
        let own = own.into_iter().chain(self.carried.clone());
        let roots = Roots::new(std::iter::once(self.project_dir.clone()).chain(own));
        DirWorld {
            roots: Some(roots),
            ..self
        }
    }

    fn resolve(&self, path: &str) -> PathBuf {
        self.project_dir.join(path)
    }

    fn open(&self, path: &str, want: Want) -> io::Result<File> {
        let path = self.resolve(path);
        match &self.roots {
            Some(roots) => roots.open(&path, want),
            None => super::roots::open(&path, want),
        }
    }

    fn list_folder(&self, path: &str) -> io::Result<Vec<String>> {
        let folder = self.open(path, Want::Folder)?;
        let entries = super::roots::entries(&folder, &self.resolve(path))?;
        let mut names: Vec<String> = entries
            .into_iter()
            .map(|(name, kind)| {
                let is_dir = match kind {
                    Some(kind) if !kind.is_symlink() => kind.is_dir(),
                    _ if path.is_empty() => self.is_dir(&name),
                    _ => self.is_dir(&format!("{}/{name}", path.trim_end_matches('/'))),
                };
                if is_dir { name + "/" } else { name }
            })
            .collect();
        names.sort();
        Ok(names)
    }
}

/// The content of any plain file, whatever world it belongs to.
pub(crate) fn read_plain(path: &str) -> io::Result<Vec<u8>> {
    content(super::roots::open(Path::new(path), Want::Content)?)
}

fn content(file: File) -> io::Result<Vec<u8>> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let too_large = || io::Error::other("the file is larger than 64 MiB");
    if meta.len() > MAX_FILE_BYTES {
        return Err(too_large());
    }
    let length = usize::try_from(meta.len()).unwrap_or_default();
    let mut content = Vec::with_capacity(length);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large());
    }
    Ok(content)
}

impl World for DirWorld {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        content(self.open(path, Want::Content)?)
    }

    fn is_file(&self, path: &str) -> bool {
        match &self.roots {
            Some(roots) => roots
                .metadata(&self.resolve(path))
                .is_ok_and(|meta| meta.is_file()),
            None => self.resolve(path).is_file(),
        }
    }

    fn is_dir(&self, path: &str) -> bool {
        match &self.roots {
            Some(roots) => roots
                .metadata(&self.resolve(path))
                .is_ok_and(|meta| meta.is_dir()),
            None => self.resolve(path).is_dir(),
        }
    }

    fn is_program(&self, path: &str) -> bool {
        match &self.roots {
            Some(roots) => {
                let entry = roots.open(&self.resolve(path), Want::Entry);
                let kind = entry.and_then(|entry| entry.metadata());
                kind.is_ok_and(|meta| meta.is_file() || meta.is_symlink())
            }
            None => self.resolve(path).is_file(),
        }
    }

    fn is_outside(&self, path: &str) -> bool {
        let roots = self.roots.as_ref();
        roots.is_some_and(|roots| roots.is_outside(&self.resolve(path)))
    }

    fn list(&self, path: &str) -> Vec<String> {
        self.list_folder(path).unwrap_or_default()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn variables(&self) -> Variables {
        self.env.clone()
    }

    fn environment(&self) -> Option<String> {
        self.environment.clone()
    }

    fn outer_environment(&self) -> Option<String> {
        self.outer_environment.clone()
    }

    fn packages(&self) -> Option<&dyn PythonPackages> {
        self.packages.as_deref()
    }

    fn carried(&self) -> Option<String> {
        let of_python = || self.packages.as_ref().and_then(|python| python.carried());
        let folder = self.carried.clone().or_else(of_python)?;
        Some(folder.to_string_lossy().into_owned())
    }

    fn real(&self, path: &str) -> String {
        let path = self.resolve(path);
        // Where a contained project may look goes by the names of its folders.
        let real = fs::canonicalize(&path).ok();
        let real = real.filter(|real| {
            let roots = self.roots.as_ref();
            roots.is_none_or(|roots| !roots.is_outside(real))
        });
        real.unwrap_or(path).to_string_lossy().into_owned()
    }

    fn print(&self, line: &str) {
        if let Ok(mut print) = self.print.lock() {
            print(line);
        }
    }

    fn absolute(&self, path: &str) -> String {
        self.resolve(path).to_string_lossy().into_owned()
    }

    fn write(&self, path: &str, content: &str) -> io::Result<()> {
        let beneath = Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !beneath {
            return Err(io::Error::other("the file is not below the project"));
        }
        let path = self.resolve(path);
        if let Some(parent) = path.parent() {
            let roots = self.roots.as_ref();
            // Before, so that no folder is made over a link; after, for what was not there before.
            let is_outside = || roots.is_some_and(|roots| roots.is_outside(parent));
            if is_outside() {
                return Err(io::Error::other("the file is not below the project"));
            }
            fs::create_dir_all(parent)?;
            if is_outside() {
                return Err(io::Error::other("the file is not below the project"));
            }
        }
        // A link in its place would lead elsewhere.
        if fs::symlink_metadata(&path).is_ok_and(|meta| !meta.is_file()) {
            return Err(io::Error::other("not a regular file"));
        }
        fs::write(path, content)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory with a project, a virtual environment beside it, and files that are neither's.
    fn world(dir: &Path) -> DirWorld {
        for folder in [
            "data/projects",
            "data/one/libs/m",
            "data/venv/lib",
            "data/two",
            "data/venv/bin",
        ] {
            fs::create_dir_all(dir.join(folder)).unwrap();
        }
        for file in [
            "data/one/main.cf",
            "data/one/libs/m/x",
            "data/venv/lib/y",
            "data/two/secret",
        ] {
            fs::write(dir.join(file), "text").unwrap();
        }
        symlink("../one", dir.join("data/projects/name")).unwrap();
        let project = dir.join("data/projects/name");
        DirWorld::new(project, Variables::new(), |_| {})
            .with_environment(Some(&dir.join("data/venv")))
    }

    #[test]
    fn a_contained_project_finds_its_own_files_and_those_of_its_environment() {
        let dir = tempfile::tempdir().unwrap();
        let world = world(dir.path()).contained();
        symlink("libs/m", dir.path().join("data/one/inside")).unwrap();
        symlink("/bin/sh", dir.path().join("data/venv/bin/python")).unwrap();
        assert_eq!(world.read_text("main.cf").unwrap(), "text");
        assert_eq!(world.read_text("./libs/../libs/m/x").unwrap(), "text");
        assert_eq!(world.read_text("inside/x").unwrap(), "text");
        assert_eq!(world.list("libs"), ["m/"]);
        assert_eq!(world.list(""), ["inside/", "libs/", "main.cf"]);
        let absolute = world.absolute("libs/m/x");
        assert!(world.is_file(&absolute) && world.is_dir("libs") && !world.is_file("libs"));
        let venv = world.environment().unwrap();
        assert_eq!(world.read_text(&format!("{venv}/lib/y")).unwrap(), "text");
        let python = format!("{venv}/bin/python");
        assert!(world.is_program(&python) && !world.is_file(&python));
        world.write("data/std/passwordfile.txt", "a=b").unwrap();
        assert_eq!(world.read_text("data/std/passwordfile.txt").unwrap(), "a=b");
    }

    #[test]
    fn a_contained_project_finds_nothing_outside_whatever_leads_there() {
        let dir = tempfile::tempdir().unwrap();
        let open = world(dir.path());
        let outside = dir.path().join("data/two");
        symlink(&outside, dir.path().join("data/one/absolute")).unwrap();
        symlink("../two", dir.path().join("data/one/relative")).unwrap();
        symlink("/proc/self/root", dir.path().join("data/one/root")).unwrap();
        symlink(
            outside.join("secret"),
            dir.path().join("data/one/libs/m/file"),
        )
        .unwrap();
        let secret = outside.join("secret").to_string_lossy().into_owned();
        let ways = [
            "../two/secret",
            "../../two/secret",
            "libs/../../two/secret",
            "absolute/secret",
            "relative/secret",
            "libs/m/file",
            &secret,
        ];
        let contained = world(&dir.path().join("again")).contained();
        drop(contained);
        let world = DirWorld::new(open.project_dir.clone(), Variables::new(), |_| {}).contained();
        for way in ways {
            assert!(world.read(way).is_err(), "{way}");
            assert!(!world.is_file(way), "{way}");
            let folder = way.rsplit_once('/').map_or("", |(folder, _)| folder);
            assert!(folder == "libs/m" || world.list(folder).is_empty(), "{way}");
        }
        let through_root = format!("root{secret}");
        assert!(world.read(&through_root).is_err());
        assert!(world.is_outside("../two") && world.is_outside(&secret));
        assert!(!world.is_outside("libs") && !world.is_outside("nowhere/yet"));
        assert!(world.write("relative/x", "x").is_err() && !outside.join("x").exists());
        assert!(world.write("libs/m/file", "x").is_err());
        // A person's own project may.
        assert!(open.is_file("relative/secret") && open.is_file(&secret));
    }

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let open = world(dir.path());
        let fifo = dir.path().join("data/one/fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let contained =
            DirWorld::new(open.project_dir.clone(), Variables::new(), |_| {}).contained();
        for world in [&open, &contained] {
            for path in ["fifo", "libs"] {
                assert!(world.read(path).is_err(), "{path}");
            }
        }
        assert!(open.read("/dev/zero").is_err());
    }
}
