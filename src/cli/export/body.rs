//! What an export sends. Source: docs/reference/rest.md § 1.5, docs/reference/language.md § 12.9.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use steward_compiler::{Export, Resource};

use super::metadata_of;
use crate::cli::ExportArguments;
use crate::compile::LocalResult;
use crate::domain::{CodeFile, CodeModule, Content, PipOptions, VersionCode, check_requirement};
use crate::modules::{self, Lock, Requirements, Source};

/// The packages that the server installs for the handlers.
#[derive(Debug, Default)]
pub(super) struct Packages {
    /// The requirements of each module.
    by_module: BTreeMap<String, Vec<String>>,
    pip: PipOptions,
    constraints: Vec<String>,
    /// Lines of requirement files that a server does not take, each with its reason.
    pub(super) left_out: Vec<String>,
}

impl Packages {
    /// What the modules of a project require; a lock says which versions.
    ///
    /// # Errors
    /// The project's files, or its lock, cannot be read.
    pub(super) fn of(
        project: &Path,
        required: BTreeMap<String, Vec<String>>,
    ) -> Result<Self, modules::Error> {
        let mut packages = Self {
            pip: Requirements::read(project)?.pip,
            ..Self::default()
        };
        for (module, lines) in required {
            let mut taken = Vec::new();
            for line in lines {
                match check_requirement(&line) {
                    Ok(()) => taken.push(line),
                    Err(why) => packages.left_out.push(format!("module {module}: {why}")),
                }
            }
            packages.by_module.insert(module, taken);
        }
        let lock = Lock::read(project)?;
        let locked = lock.iter().flat_map(|lock| &lock.packages);
        let locked = locked.filter(|package| matches!(package.source, Source::Archive { .. }));
        let pinned = locked.map(|package| format!("{}=={}", package.name, package.version));
        packages.constraints = pinned.collect();
        Ok(packages)
    }
}

/// A version that is to be sent.
pub(super) struct Body {
    pub(super) export: Export,
    /// The names of contents that the server needs.
    pub(super) contents: BTreeSet<String>,
    code: VersionCode,
    packages: Packages,
    metadata: Map<String, Value>,
    removed_sets: BTreeSet<String>,
    may_change_code: bool,
}

impl Body {
    /// Of what was compiled; `removed` are the sets that the command was told to remove.
    ///
    /// # Errors
    /// A set is sent and removed at once, and nothing says which.
    pub(super) fn of(
        compiled: LocalResult,
        packages: Packages,
        arguments: &ExportArguments,
        mut removed: BTreeSet<String>,
    ) -> Result<Self, String> {
        let metadata = metadata_of(&compiled, arguments.metadata.as_deref());
        let export = compiled.export.unwrap_or_default();
        let sets = export.resources.iter();
        let sets: BTreeSet<&String> = sets.filter_map(|one| one.resource_set.as_ref()).collect();
        if arguments.soft_delete {
            removed.retain(|set| !sets.contains(set));
        }
        if let Some(both) = removed.iter().find(|set| sets.contains(set)) {
            return Err(format!(
                "resource set `{both}` is exported and removed at once; with --soft-delete it stays"
            ));
        }
        if arguments.partial {
            removed.extend(export.removed_sets.iter().cloned());
        }
        let contents = compiled.code.contents().map(str::to_owned);
        let contents = contents.chain(compiled.uploaded).collect();
        Ok(Self {
            contents,
            code: compiled.code,
            packages,
            metadata,
            removed_sets: removed,
            may_change_code: arguments.allow_handler_code_update,
            export,
        })
    }

    /// The body of a full export, under a number that was reserved.
    pub(super) fn full(&self, version: i64) -> Value {
        let mut body = self.common(&format!(",v={version}"));
        body["version"] = version.into();
        body
    }

    /// The body of a partial export.
    pub(super) fn partial(&self) -> Value {
        let mut body = self.common("");
        body["removed_resource_sets"] = json!(self.removed_sets);
        body["allow_handler_code_update"] = self.may_change_code.into();
        body
    }

    fn common(&self, suffix: &str) -> Value {
        let resources = self.export.resources.iter();
        let states = resources.clone().map(|one| {
            let state = if one.undefined {
                "undefined"
            } else {
                "available"
            };
            (one.id.clone(), Value::from(state))
        });
        let sets = resources.clone().filter_map(|one| {
            let set = one.resource_set.clone()?;
            Some((one.id.clone(), Value::from(set)))
        });
        let mut body = json!({
            "resources": resources.map(|one| resource(one, suffix)).collect::<Vec<_>>(),
            "resource_state": states.collect::<Map<_, _>>(),
            "resource_sets": sets.collect::<Map<_, _>>(),
            "unknowns": self.export.unknowns,
            "version_info": {"export_metadata": self.metadata},
            "module_version_info": self.modules(),
            "pip_config": self.packages.pip,
            "project_constraints": self.packages.constraints.join("\n"),
        });
        // Servers of the reference do not know it.
        if !self.export.agents.is_empty() {
            body["agent_places"] = json!(self.export.agents);
        }
        body
    }

    /// The modules with their files, and the agents whose resources need them.
    fn modules(&self) -> Map<String, Value> {
        let types = self.code.types.as_ref();
        let mut agents: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for one in &self.export.resources {
            let needed = types.and_then(|types| types.get(&one.entity_type));
            for module in needed.into_iter().flatten() {
                agents.entry(module).or_default().insert(&one.agent);
            }
        }
        let module = |module: &CodeModule| {
            let agents = agents.get(module.name.as_str()).cloned();
            let files: Vec<Value> = module.files.iter().filter_map(file).collect();
            let required = self.packages.by_module.get(&module.name);
            let required = required.map_or(&[][..], Vec::as_slice);
            let content = json!([files, required]).to_string();
            let version = hex::encode(Sha256::digest(content));
            let value = json!({
                "name": module.name,
                "version": format!("src-{}", &version[..40]),
                "files_in_module": files,
                "requirements": required,
                "load_module_on_agents": agents.unwrap_or_default(),
                "editable_install": true,
            });
            (module.name.clone(), value)
        };
        self.code.modules.iter().map(module).collect()
    }
}

/// A resource as exporters write it.
fn resource(one: &Resource, suffix: &str) -> Value {
    let mut fields: Map<String, Value> = serde_json::from_str(&one.attributes).unwrap_or_default();
    fields.insert("requires".to_owned(), json!(one.requires));
    fields.insert("id".to_owned(), format!("{}{suffix}", one.id).into());
    Value::Object(fields)
}

/// `None`: its content is not in the file store, as in versions of long ago.
fn file(file: &CodeFile) -> Option<Value> {
    let Content::Sha1(hash) = &file.content else {
        return None;
    };
    let path = file.module.replace('.', "/");
    let path = match file.package {
        true => format!("{path}/__init__.py"),
        false => format!("{path}.py"),
    };
    Some(json!({"path": path, "hash_value": hash}))
}
