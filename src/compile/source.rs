//! Where the text of an environment's model comes from: a repository, or a plain folder treated as one.

use std::path::{Path, PathBuf};

use crate::domain::DataDir;
use crate::git::{self, AddressPolicy, CommitInfo, LocalPolicy, Mirror, RepositoryUrl};
use crate::store::Version;

/// A place to get commits from.
#[derive(Debug, Clone)]
pub enum Source {
    Repository {
        url: RepositoryUrl,
        branch: Option<String>,
    },
    /// A folder that is no repository; its states become commits of one of our own.
    Folder {
        folder: PathBuf,
        repository: PathBuf,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Url(#[from] git::UrlError),
    #[error("there is neither a repository nor a folder at {0}")]
    Missing(String),
    #[error("{0} has no project.yml: it is no project (a repository needs its own .git folder)")]
    NoProject(String),
}

/// A commit, where it is from, and what people call it.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) source: Source,
    pub(super) info: CommitInfo,
}

impl Head {
    /// The commit that a version was compiled from; `None`: it has none, or its ids are not ours.
    pub(super) fn of_version(source: Source, version: &Version) -> Option<Self> {
        let field = |name: &str| {
            version.metadata[name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Some(Self {
            source,
            info: CommitInfo {
                id: version.commit_id.as_ref()?.parse().ok()?,
                tree: version.tree_id.as_ref()?.parse().ok()?,
                author: field("commit_author"),
                time: 0,
                summary: field("commit_summary"),
            },
        })
    }
}

/// How a folder is written in `environment.repo_url`.
const FOLDER_PREFIX: &str = "folder:";

impl Source {
    /// From what a person typed: a URL, a local repository, or a folder with a project.
    pub fn from_argument(
        text: &str,
        branch: Option<&str>,
        data: &DataDir,
    ) -> Result<Self, SourceError> {
        let path = Path::new(text);
        let looks_like_url = text.contains("://") || (!path.exists() && text.contains(':'));
        if looks_like_url {
            return Self::repository(text, branch);
        }
        let folder =
            std::fs::canonicalize(path).map_err(|_| SourceError::Missing(text.to_owned()))?;
        if git::is_repository(&folder).is_some() {
            return Self::repository(&folder.to_string_lossy(), branch);
        }
        if !folder.join("project.yml").is_file() {
            return Err(SourceError::NoProject(text.to_owned()));
        }
        Ok(Self::folder(folder, data))
    }

    /// From the columns of an environment.
    pub fn from_stored(url: &str, branch: &str, data: &DataDir) -> Result<Self, SourceError> {
        match url.strip_prefix(FOLDER_PREFIX) {
            Some(folder) => Ok(Self::folder(PathBuf::from(folder), data)),
            None => Self::repository(url, (!branch.is_empty()).then_some(branch)),
        }
    }

    /// The source as the environment's columns `repo_url` and `repo_branch` hold it.
    pub fn to_stored(&self) -> (String, String) {
        match self {
            Self::Repository { url, branch } => {
                (url.as_str().to_owned(), branch.clone().unwrap_or_default())
            }
            Self::Folder { folder, .. } => (
                format!("{FOLDER_PREFIX}{}", folder.display()),
                String::new(),
            ),
        }
    }

    fn repository(url: &str, branch: Option<&str>) -> Result<Self, SourceError> {
        // Who names a repository here runs the server or holds its configuration.
        let policy = AddressPolicy {
            http: true,
            local: LocalPolicy::Anywhere,
        };
        let url = RepositoryUrl::parse(url, &policy)?;
        Ok(Self::Repository {
            url,
            branch: branch.map(str::to_owned),
        })
    }

    fn folder(folder: PathBuf, data: &DataDir) -> Self {
        use sha2::{Digest, Sha256};
        let digest = hex::encode(Sha256::digest(folder.to_string_lossy().as_bytes()));
        Self::Folder {
            folder,
            repository: data.folder_repositories().join(&digest[..16]),
        }
    }

    /// The folder or local repository to watch, if it is on this machine.
    pub fn local(&self) -> Option<&Path> {
        match self {
            Self::Repository { url, .. } => url.local_path(),
            Self::Folder { folder, .. } => Some(folder),
        }
    }

    /// Where its commits are kept below a server's directory.
    pub(super) fn place(&self, data: &DataDir) -> PathBuf {
        match self {
            Self::Repository { url, .. } => Mirror::place(&data.mirrors(), url),
            Self::Folder { repository, .. } => repository.clone(),
        }
    }

    /// For people: no secrets.
    pub fn display(&self) -> String {
        match self {
            Self::Repository {
                url,
                branch: Some(branch),
            } => format!("{} branch {branch}", url.as_str()),
            Self::Repository { url, branch: None } => url.as_str().to_owned(),
            Self::Folder { folder, .. } => folder.display().to_string(),
        }
    }
}
