//! The Python code of a version, laid out for its handlers: a folder with the contents of the file store, named by what is
//! in it, so that versions with the same code share it and processes that have imported it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use steward_compiler::PythonRuntime;
use steward_compiler::protocol::{BrokenModule, PythonFile, PythonModule};

use crate::domain::{CodeFile, CodeModule, Content, DataDir, EnvironmentId};
use crate::executor::protocol::Python;
use crate::files::{self, Files};

/// The Python code of a version.
#[derive(Debug)]
pub(crate) struct Code {
    /// The same for the same content, wherever it lies.
    pub(crate) key: String,
    pub(crate) modules: Vec<PythonModule>,
    /// Modules whose content cannot be had.
    pub(crate) broken: Vec<BrokenModule>,
    pub(crate) python: Option<Python>,
    /// Why there is no Python, where that is known.
    pub(crate) no_python: Option<String>,
    pub(crate) environment_id: EnvironmentId,
    /// The modules as they were announced.
    announced: Vec<CodeModule>,
}

/// A module with the content of its files.
struct Read<'a> {
    module: &'a CodeModule,
    contents: Vec<Vec<u8>>,
}

impl Code {
    pub(crate) fn new(
        announced: Vec<CodeModule>,
        python: Option<Python>,
        environment_id: EnvironmentId,
    ) -> Self {
        let store = python.as_ref().and_then(|python| python.files.clone());
        let files = store.clone().map(Files::new);
        let mut broken = Vec::new();
        let mut whole = Vec::new();
        for module in &announced {
            match read(module, files.as_ref()) {
                Ok(contents) => whole.push(Read { module, contents }),
                Err(message) => broken.push(broken_module(&module.name, message)),
            }
        }
        let of_files = digest(&whole);
        // Beside the file store.
        let directory = store.map(|store| DataDir::code_beside(&store).join(&of_files));
        // Without files: the Python host imports it from its package, or it has no code at all.
        let has_code = |read: &&Read<'_>| !read.module.files.is_empty() || read.module.is_package();
        let modules = whole
            .iter()
            .filter(has_code)
            .filter_map(|read| match &directory {
                None => Some(in_place(read.module)),
                Some(directory) => lay_out(read, directory)
                    .map_err(|error| {
                        broken.push(broken_module(&read.module.name, error.to_string()))
                    })
                    .ok(),
            });
        let modules = modules.collect();
        if let Some(directory) = &directory {
            // It is in use: see `gc_code_folders`. A module without content has none.
            let _ = files::touch(directory);
        }
        let mut key = of_files;
        if let Some(python) = &python {
            for path in [&python.interpreter, &python.package] {
                key.push('\n');
                key.push_str(&path.to_string_lossy());
            }
        }
        Self {
            key,
            modules,
            broken,
            python,
            no_python: None,
            environment_id,
            announced,
        }
    }

    /// The same, with the reason why there is no Python.
    pub(crate) fn without_python(self, no_python: Option<String>) -> Self {
        Self { no_python, ..self }
    }

    /// The same once more, if it is not all there, but may be now.
    pub(crate) fn again(&self) -> Option<Self> {
        let is_good = self.broken.is_empty() && self.is_on_disk();
        (!is_good).then(|| {
            let announced = self.announced.clone();
            let again = Self::new(announced, self.python.clone(), self.environment_id);
            again.without_python(self.no_python.clone())
        })
    }

    /// Somebody may have cleared the folder.
    pub(crate) fn is_on_disk(&self) -> bool {
        let mut files = self.modules.iter().flat_map(|module| &module.files);
        files.all(|file| Path::new(&file.path).exists())
    }

    /// The module of a resource type has Python code of its own, so its handlers win over native ones.
    pub(crate) fn has_module_of(&self, resource_type: &str) -> bool {
        let module = resource_type.split("::").next().unwrap_or_default();
        let has_code = self.modules.iter().any(|known| known.name == module);
        has_code || self.broken.iter().any(|broken| broken.module == module)
    }
}

fn broken_module(name: &str, message: String) -> BrokenModule {
    BrokenModule {
        module: name.to_owned(),
        message,
        traceback: String::new(),
    }
}

fn read(module: &CodeModule, files: Option<&Files>) -> Result<Vec<Vec<u8>>, String> {
    let content = |file: &CodeFile| match &file.content {
        Content::Path(path) => {
            fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
        }
        Content::Sha1(name) => files
            .and_then(|files| files.get(name))
            .ok_or_else(|| format!("{}: its code {name} is not in the file store", file.module)),
    };
    module.files.iter().map(content).collect()
}

fn digest(modules: &[Read<'_>]) -> String {
    let mut sha = Sha256::new();
    let mut add = |bytes: &[u8]| steward_compiler::add_part(&mut sha, bytes);
    for Read { module, contents } in modules {
        add(module.name.as_bytes());
        for (file, content) in module.files.iter().zip(contents) {
            add(file.module.as_bytes());
            add(&[u8::from(file.package)]);
            add(content);
        }
    }
    hex::encode(&sha.finalize()[..16])
}

/// Where the file of a Python module is, below a directory of the import path.
fn relative(file: &CodeFile, content: &[u8]) -> PathBuf {
    let path: PathBuf = file.module.split('.').collect();
    let path = match file.package {
        true => path.join("__init__"),
        false => path,
    };
    path.with_extension(match is_compiled(content) {
        true => "pyc",
        false => "py",
    })
}

/// Whether it is what Python has compiled of a source: two bytes for its version, a line break and four bytes of flags, of
/// which few are in use. No source has a null byte.
fn is_compiled(content: &[u8]) -> bool {
    matches!(content, [_, _, b'\r', b'\n', 0..=3, 0, 0, 0, ..])
}

/// Writes a module's files, unless they are there.
fn lay_out(read: &Read<'_>, directory: &Path) -> io::Result<PythonModule> {
    let mut files = Vec::new();
    for (file, content) in read.module.files.iter().zip(&read.contents) {
        let path = directory.join(relative(file, content));
        // What is there may be cut off, or a handler's doing.
        if fs::read(&path).ok().as_ref() != Some(content) {
            let parent = path.parent().unwrap_or(directory);
            files::make_private(parent)?;
            let fresh = tempfile::Builder::new()
                .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .tempfile_in(parent)?;
            fs::write(fresh.path(), content)?;
            fresh.persist(&path)?;
        }
        files.push(PythonFile {
            module: file.module.clone(),
            path: path.to_string_lossy().into_owned(),
            package: file.package,
        });
    }
    let root = directory.join("inmanta_plugins").join(&read.module.name);
    Ok(PythonModule {
        name: read.module.name.clone(),
        root: root.to_string_lossy().into_owned(),
        files,
    })
}

/// A module whose files are where they are to be read.
fn in_place(module: &CodeModule) -> PythonModule {
    let files = module.files.iter().filter_map(|file| match &file.content {
        Content::Path(path) => Some(PythonFile {
            module: file.module.clone(),
            path: path.to_string_lossy().into_owned(),
            package: file.package,
        }),
        Content::Sha1(_) => None,
    });
    PythonModule {
        name: module.name.clone(),
        root: String::new(),
        files: files.collect(),
    }
}

/// Removes what executors laid out of the code of versions, and did not start a host with for `age`, and the bytecode of
/// it; gives how many folders that were. Blocks.
pub fn gc_code_folders(data: &DataDir, age: Duration) -> usize {
    let code = data.code();
    let mut n_removed = 0;
    for folder in files::folders(&code) {
        if files::is_older(&folder, age) {
            n_removed += usize::from(std::fs::remove_dir_all(folder).is_ok());
        }
    }
    let absolute = std::path::absolute(&code).unwrap_or_else(|_| code.clone());
    for runtime in files::folders(&data.runtime()) {
        // Python keeps the bytecode of `/a/b.py` in `a` of the cache.
        let cache = runtime
            .join(PythonRuntime::BYTECODE)
            .join(absolute.strip_prefix("/").unwrap_or(&absolute));
        for folder in files::folders(&cache) {
            let is_there = folder
                .file_name()
                .is_some_and(|name| code.join(name).exists());
            if !is_there {
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }
    n_removed
}

#[cfg(test)]
mod tests {
    use crate::executor::code_folder::*;

    #[test]
    fn code_lies_where_its_content_says_and_what_is_cut_off_is_mended() {
        let dir = tempfile::tempdir().unwrap();
        let store = Files::new(dir.path().join("files"));
        let python = Python {
            interpreter: "python3".into(),
            package: "package".into(),
            files: Some(dir.path().join("files")),
        };
        let module = |name: &str, content: String| CodeModule {
            name: name.to_owned(),
            files: vec![CodeFile {
                module: format!("inmanta_plugins.{name}"),
                package: true,
                content: Content::Sha1(content),
            }],
            requirements: Default::default(),
        };
        let announced = vec![
            module("net", store.put(b"x = 1\n").unwrap()),
            module("gone", "0".repeat(40)),
        ];
        let make = || {
            Code::new(
                announced.clone(),
                Some(python.clone()),
                EnvironmentId::generate(),
            )
        };
        let code = make();
        assert!(code.has_module_of("net::Row") && code.has_module_of("gone::Row"));
        assert!(!code.has_module_of("other::Row"));
        assert_eq!(code.broken[0].module, "gone");
        let path = PathBuf::from(&code.modules[0].files[0].path);
        assert!(path.starts_with(dir.path().join("code")));
        assert!(path.ends_with("inmanta_plugins/net/__init__.py"));
        fs::write(&path, "x =").unwrap();
        assert_eq!(make().key, code.key);
        assert_eq!(fs::read_to_string(&path).unwrap(), "x = 1\n");
        // What was published without sources is imported as it is.
        let place = |content: &[u8]| relative(&announced[0].files[0], content);
        assert!(place(b"\xf3\r\r\n\0\0\0\0x").ends_with("net/__init__.pyc"));
        assert!(place(b"x=\r\n1\r\n").ends_with("net/__init__.py"));
        // What was gone may have come back.
        assert!(code.again().is_some());
        let whole = Code::new(
            announced[..1].to_vec(),
            Some(python.clone()),
            code.environment_id,
        );
        assert!(whole.again().is_none());
        fs::remove_dir_all(dir.path().join("code")).unwrap();
        assert!(whole.again().unwrap().is_on_disk());
    }

    #[test]
    fn code_that_nothing_uses_goes_with_its_bytecode() {
        let dir = tempfile::tempdir().unwrap();
        let data = &DataDir::new(dir.path());
        let cache = data
            .runtime()
            .join("python-1")
            .join(PythonRuntime::BYTECODE);
        let bytecode = cache.join(data.code().strip_prefix("/").unwrap());
        for name in ["used", "unused"] {
            std::fs::create_dir_all(data.code().join(name)).unwrap();
            std::fs::create_dir_all(bytecode.join(name).join("m")).unwrap();
        }
        std::fs::create_dir_all(cache.join("usr/lib")).unwrap();
        gc_code_folders(data, Duration::from_secs(60));
        assert_eq!(files::folders(&bytecode).len(), 2);
        std::fs::remove_dir(data.code().join("unused")).unwrap();
        gc_code_folders(data, Duration::from_secs(60));
        assert_eq!(files::folders(&bytecode), [bytecode.join("used")]);
        assert!(cache.join("usr/lib").exists());
        gc_code_folders(data, Duration::ZERO);
        assert_eq!(files::folders(&bytecode).len(), 0);
    }
}
