//! What agents on other machines have to install for the handlers of a compile: they have nothing of the virtual environment
//! that was made for it here.
//!
//! The worker that has compiled says what each module requires (`code`), read from files of the repository. What of that is a
//! requirement, in which version, and where it comes from, is decided here: by what was installed for the compile, so that all
//! machines have the same. Source: docs/reference/deployment.md § 5.11.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{
    OWN_MODULES, PackagesElsewhere, PipOptions, VersionCode, check_requirement,
    module_of_requirement, name_of_requirement,
};
use crate::modules::{Lock, Requirements, Source, normalized};

/// What was installed for a compile, and from where.
#[derive(Debug, Clone)]
pub(super) struct InstalledPackages {
    lock: Lock,
    pip: PipOptions,
}

impl InstalledPackages {
    pub(super) fn new(lock: Lock, asked: &Requirements) -> Self {
        let mut pip = asked.pip.clone();
        // Lines of requirement files that name an index say it as well as `pip:` of project.yml. Folders are not elsewhere.
        for line in &asked.sources {
            let (option, url) = line.split_once(['=', ' ']).unwrap_or((line, ""));
            let url = url.trim().to_owned();
            match option {
                "-i" | "--index-url" => pip.index_url = Some(url),
                "--extra-index-url" => pip.extra_index_url.push(url),
                _ => {}
            }
        }
        Self { lock, pip }
    }

    /// Makes what the modules of some code say that they require what another machine installs.
    pub(super) fn complete(&self, code: &mut VersionCode) {
        let said = std::mem::take(&mut code.elsewhere.modules);
        let modules = said.into_iter().filter_map(|(module, requirements)| {
            let requirements = requirements.iter();
            let taken = requirements.filter_map(|requirement| self.taken(requirement));
            let taken: BTreeSet<String> = taken.collect();
            (!taken.is_empty()).then_some((module, taken))
        });
        let modules: BTreeMap<String, BTreeSet<String>> = modules.collect();
        code.elsewhere = PackagesElsewhere::default();
        if !modules.is_empty() {
            code.elsewhere = PackagesElsewhere {
                modules,
                constraints: self.constraints(),
                pip: self.pip.clone(),
            };
        }
    }

    /// A requirement as another machine can meet it; `None`: it is met without it, or cannot be met there.
    fn taken(&self, requirement: &str) -> Option<String> {
        check_requirement(requirement).ok()?;
        // They are in the agent, as our package is. The code of other modules travels with the version, but what else is in their
        // packages does not, nor do modules that no model imports.
        let module = module_of_requirement(requirement);
        if module
            .as_deref()
            .is_some_and(|name| OWN_MODULES.contains(&name))
        {
            return None;
        }
        let name = normalized(name_of_requirement(requirement));
        let mut locked = self.lock.packages.iter();
        let Some(package) = locked.find(|package| package.name == name) else {
            // It does not apply here, by its marker; there it may. Modules that are not installed are of the repository, or ours.
            return module.is_none().then(|| requirement.to_owned());
        };
        let from = match &package.source {
            Source::Own { .. } | Source::Folder { .. } => return None,
            Source::Archive { url: None, .. } => return Some(requirement.to_owned()),
            Source::Archive { url: Some(url), .. } => url.clone(),
            Source::Repository {
                git,
                commit,
                subdirectory,
            } => {
                let folder = subdirectory.as_ref();
                let folder = folder.map_or(String::new(), |path| format!("#subdirectory={path}"));
                format!("git+{git}@{commit}{folder}")
            }
        };
        let requirement = format!("{name} @ {from}");
        check_requirement(&requirement)
            .is_ok()
            .then_some(requirement)
    }

    fn constraints(&self) -> BTreeSet<String> {
        let packages = self.lock.packages.iter();
        let of_index =
            packages.filter(|package| matches!(package.source, Source::Archive { url: None, .. }));
        of_index
            .map(|package| format!("{}=={}", package.name, package.version))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_install_what_the_modules_require_as_it_is_installed_here() {
        let lock = "format: 2\nrequirements: 'sha256:0'\npackages:\n\
                    - {name: a, version: '1.2', source: {sha256: aa}}\n\
                    - {name: by-url, version: '2', source: {url: 'https://host/by_url.whl', sha256: aa}}\n\
                    - {name: inmanta-core, version: 20.1.0, source: {provided_by: steward}}\n\
                    - {name: inmanta-module-net, version: '3', source: {sha256: aa}}\n\
                    - {name: inmanta-module-std, version: 8.7.5, source: {sha256: aa}}\n\
                    - {name: local, version: '1', source: {folder: local, sha256: aa}}\n\
                    - {name: of-git, version: '1', source: {git: 'https://host/x.git', commit: c0ffee, subdirectory: d}}\n";
        let installed = InstalledPackages {
            lock: Lock::parse(lock).unwrap(),
            pip: PipOptions::default(),
        };
        let requirements = [
            "A>=1",
            "By_Url",
            "inmanta-core>=8",
            "inmanta-module-net",
            "inmanta-module-of-repository",
            "inmanta-module-std",
            "local",
            "of.git",
            "not-here ; sys_platform == 'win32'",
            "-r other.txt",
            "x @ file:///etc/x",
        ];
        let mut code = VersionCode::default();
        let requirements = requirements.map(str::to_owned).into();
        code.elsewhere.modules = BTreeMap::from([("net".to_owned(), requirements)]);
        installed.complete(&mut code);
        let packages = code.packages_elsewhere(|_| true).unwrap();
        assert_eq!(
            Vec::from_iter(packages.requirements),
            [
                "A>=1",
                "by-url @ https://host/by_url.whl",
                "inmanta-module-net",
                "not-here ; sys_platform == 'win32'",
                "of-git @ git+https://host/x.git@c0ffee#subdirectory=d",
            ]
        );
        assert_eq!(
            Vec::from_iter(packages.constraints),
            [
                "a==1.2",
                "inmanta-module-net==3",
                "inmanta-module-std==8.7.5"
            ]
        );
        assert_eq!(code.packages(|_| true), None);
        code.elsewhere.modules = BTreeMap::from([("net".to_owned(), ["local".to_owned()].into())]);
        installed.complete(&mut code);
        assert_eq!(code.elsewhere, PackagesElsewhere::default());
    }
}
