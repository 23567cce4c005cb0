//! The open buffers and the projects they belong to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lsp_server::Notification;
use lsp_types::notification::{Notification as _, PublishDiagnostics};
use lsp_types::{PublishDiagnosticsParams, Uri};
use steward_compiler::ide::Ide;
use steward_compiler::{Diagnostic, DirWorld, PythonPackages, Variables, World, format};

use super::super::cache_dir;
use super::convert::{path_of, uri_of};
use crate::compile::{Packages, outer_environment};

#[derive(Default)]
pub struct Workspace {
    buffers: HashMap<PathBuf, String>,
    projects: BTreeMap<PathBuf, Project>,
    /// Files without a project, with the time of their next look.
    loose: BTreeMap<PathBuf, Option<Instant>>,
}

#[derive(Default)]
struct Project {
    ide: Option<Ide>,
    /// The time at which it is read again.
    due: Option<Instant>,
    /// Files whose diagnostics the editor shows.
    shown: BTreeSet<PathBuf>,
}

/// A file within its project, read as it is now.
pub struct OpenDocument<'a> {
    pub ide: &'a Ide,
    pub root: PathBuf,
    /// The name that the project has for the file.
    pub name: String,
    pub text: &'a str,
    pub world: Overlay<'a>,
}

impl Workspace {
    /// The time at which something is to be read again.
    pub fn due(&self) -> Option<Instant> {
        let projects = self.projects.values().filter_map(|project| project.due);
        projects.chain(self.loose.values().copied().flatten()).min()
    }

    pub fn set(&mut self, uri: &Uri, text: String, pause: Duration) {
        if let Some(path) = path_of(uri) {
            self.buffers.insert(path.clone(), text);
            self.mark(&path, pause);
        }
    }

    pub fn touch(&mut self, uri: &Uri) {
        if let Some(path) = path_of(uri) {
            self.mark(&path, Duration::ZERO);
        }
    }

    /// Something changed on disk.
    pub fn touch_all(&mut self) {
        for project in self.projects.values_mut() {
            project.due = Some(Instant::now());
        }
    }

    pub fn close(&mut self, uri: &Uri) {
        if let Some(path) = path_of(uri) {
            self.buffers.remove(&path);
            self.mark(&path, Duration::ZERO);
        }
    }

    /// The text of an open document.
    pub fn text(&self, uri: &Uri) -> Option<(PathBuf, &str)> {
        let path = path_of(uri)?;
        let text = self.buffers.get(&path)?;
        Some((path, text))
    }

    fn mark(&mut self, path: &Path, pause: Duration) {
        let due = Some(Instant::now() + pause);
        match root_of(path) {
            Some(root) => self.projects.entry(root).or_default().due = due,
            None => {
                self.loose.insert(path.to_owned(), due);
            }
        }
    }

    /// An open document with its project, read again if it has changed. `None`: it belongs to none.
    pub fn open(&mut self, uri: &Uri) -> Option<OpenDocument<'_>> {
        let path = path_of(uri)?;
        let root = root_of(&path)?;
        let world = Overlay::new(&root, &self.buffers);
        let project = self.projects.entry(root.clone()).or_default();
        if project.due.is_some() || project.ide.is_none() {
            // Its diagnostics are published when they are due.
            project.ide = Ide::read(&world).ok();
        }
        let ide = project.ide.as_ref()?;
        let mut names = ide.files();
        let name = names.find(|name| normal(&root.join(name)) == path)?;
        let name = name.to_owned();
        let text = self.buffers.get(&path)?;
        Some(OpenDocument {
            ide,
            root,
            name,
            text,
            world,
        })
    }

    /// Reads what is due and gives what the editor has to show.
    pub fn refresh(&mut self) -> Vec<Notification> {
        let now = Instant::now();
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        let mut published = Vec::new();
        for (root, project) in &mut self.projects {
            if !is_due(project.due) {
                continue;
            }
            project.due = None;
            let world = Overlay::new(root, &self.buffers);
            let Ok(ide) = Ide::read(&world) else {
                continue;
            };
            let mut by_file: BTreeMap<PathBuf, Vec<lsp_types::Diagnostic>> = BTreeMap::new();
            for path in std::mem::take(&mut project.shown) {
                by_file.insert(path, Vec::new());
            }
            for diagnostic in &ide.checked().diagnostics {
                let (path, shown) = super::convert::diagnostic(diagnostic, &ide, root);
                by_file.entry(path).or_default().push(shown);
            }
            // Open files that nothing imports are looked at for themselves.
            let known: BTreeSet<PathBuf> =
                ide.files().map(|name| normal(&root.join(name))).collect();
            for (path, text) in &self.buffers {
                if root_of(path).as_ref() == Some(root) {
                    let shown = by_file.entry(path.clone()).or_default();
                    if !known.contains(path) {
                        *shown = alone(path, text);
                    }
                }
            }
            project.shown = by_file
                .iter()
                .filter(|(_, diagnostics)| !diagnostics.is_empty())
                .map(|(path, _)| path.clone())
                .collect();
            published.extend(by_file.into_iter().filter_map(publish));
            project.ide = Some(ide);
        }
        for (path, due) in &mut self.loose {
            if is_due(*due) {
                *due = None;
                let text = self.buffers.get(path);
                let diagnostics = text.map_or_else(Vec::new, |text| alone(path, text));
                published.extend(publish((path.clone(), diagnostics)));
            }
        }
        self.loose.retain(|_, due| due.is_some());
        published
    }
}

fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "cf")
}

/// The mistakes of syntax of a text without a project.
fn alone(path: &Path, text: &str) -> Vec<lsp_types::Diagnostic> {
    if !is_model(path) {
        return Vec::new();
    }
    let name = path.display().to_string();
    let diagnostics: Vec<Diagnostic> = format(&name, text).err().unwrap_or_default();
    let found = diagnostics.iter();
    found
        .map(|diagnostic| super::convert::alone(diagnostic, text))
        .collect()
}

fn publish((path, diagnostics): (PathBuf, Vec<lsp_types::Diagnostic>)) -> Option<Notification> {
    let uri = uri_of(&path)?;
    let params = PublishDiagnosticsParams::new(uri, diagnostics, None);
    Some(Notification::new(
        PublishDiagnostics::METHOD.to_owned(),
        params,
    ))
}

/// The nearest directory upwards with a `project.yml`.
fn root_of(path: &Path) -> Option<PathBuf> {
    let mut above = path.ancestors().skip(1);
    above
        .find(|directory| directory.join("project.yml").is_file())
        .map(Path::to_owned)
}

/// Without `.` and `..`.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// A project on disk with the editor's unsaved texts over it.
pub struct Overlay<'a> {
    root: PathBuf,
    disk: DirWorld,
    buffers: &'a HashMap<PathBuf, String>,
}

impl<'a> Overlay<'a> {
    fn new(root: &Path, buffers: &'a HashMap<PathBuf, String>) -> Self {
        let pythons = crate::python::Pythons::new(None).known_below(&cache_dir());
        let outer = outer_environment(&pythons);
        let packages = Packages::of_editor(cache_dir(), pythons);
        Overlay {
            root: root.to_owned(),
            disk: DirWorld::new(root.to_owned(), Variables::new(), |_| {})
                .with_packages(outer.as_deref(), Arc::new(packages)),
            buffers,
        }
    }

    fn buffer(&self, path: &str) -> Option<&str> {
        let path = normal(&self.root.join(path));
        self.buffers.get(&path).map(String::as_str)
    }
}

impl World for Overlay<'_> {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match self.buffer(path) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => self.disk.read(path),
        }
    }

    fn is_file(&self, path: &str) -> bool {
        self.buffer(path).is_some() || self.disk.is_file(path)
    }

    fn list(&self, path: &str) -> Vec<String> {
        self.disk.list(path)
    }

    fn env(&self, _: &str) -> Option<String> {
        None
    }

    fn variables(&self) -> Variables {
        Variables::new()
    }

    fn print(&self, _: &str) {}

    fn absolute(&self, path: &str) -> String {
        self.disk.absolute(path)
    }

    fn real(&self, path: &str) -> String {
        self.disk.real(path)
    }

    fn outer_environment(&self) -> Option<String> {
        self.disk.outer_environment()
    }

    fn packages(&self) -> Option<&dyn PythonPackages> {
        self.disk.packages()
    }

    fn write(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
