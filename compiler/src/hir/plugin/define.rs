//! Plugins as definitions: native ones of the loaded built-in modules and those that Python declares.

use crate::Location;
use crate::diagnostics::{Fail, fail, runtime, typing};
use crate::hir::build::Builder;
use crate::hir::plugin::{Body, NativeDef, Parameter, PluginDef, PythonPlugins, native_signature};
use crate::hir::{Def, NamespaceId, PluginId};
use crate::protocol::{Annotation, DataclassInfo, PluginInfo};
use crate::span::Loc;
use crate::types::{LiteralValue, Type, TypeId, Value};

impl Builder<'_> {
    pub fn register_plugins(&mut self, natives: Vec<NativeDef>, python: PythonPlugins) {
        for primitive in [Type::String, Type::Int, Type::Float, Type::Bool, Type::Any] {
            // References of Python may stand for them, whether the model names them or not.
            self.program.add_type(primitive);
        }
        for native in natives {
            let (parameters, returns_declared) =
                native_signature::parse(native.signature, &mut self.program.heap);
            let name = self.intern(native.name);
            self.add_plugin(PluginDef {
                name,
                namespace: NamespaceId(0),
                parameters,
                returns: TypeId(0),
                returns_declared,
                allow_unknown: native.allow_unknown,
                context: native.context,
                emits_statements: false,
                deprecated: native
                    .deprecated
                    .map(|by| (!by.is_empty()).then(|| by.to_owned())),
                declared_at: None,
                body: Body::Native(native.body),
            });
        }
        for plugin in python.plugins {
            self.add_python(plugin);
        }
        self.program.resource_classes = python.resources;
        for name in python.open_namespaces {
            let name = self.intern(&name);
            self.open.extend(self.namespace_of.get(&name));
        }
    }

    fn add_python(&mut self, plugin: PluginInfo) {
        let name = self.intern(&plugin.name);
        let parameters = plugin
            .parameters
            .into_iter()
            .map(|parameter| Parameter {
                name: parameter.name,
                kind: parameter.kind,
                declared: parameter.annotation,
                ty: TypeId(0),
                has_default: parameter.has_default,
                default: Value::Null,
            })
            .collect();
        self.add_plugin(PluginDef {
            name,
            namespace: NamespaceId(0),
            parameters,
            returns: TypeId(0),
            returns_declared: plugin.returns,
            allow_unknown: plugin.allow_unknown,
            context: plugin.takes_context,
            emits_statements: plugin.emits_statements,
            // A frame cannot tell nothing from no name.
            deprecated: plugin
                .deprecated
                .map(|name| name.filter(|name| !name.is_empty())),
            declared_at: (plugin.line > 0).then_some(Location {
                file: plugin.file,
                line: plugin.line,
                column: Some(1),
                end_line: None,
                end_column: None,
            }),
            body: Body::Python,
        });
    }

    fn add_plugin(&mut self, mut plugin: PluginDef) {
        let text = self.text(plugin.name).to_owned();
        let Some((namespace, short)) = text.rsplit_once("::") else {
            return;
        };
        // Only plugins of loaded namespaces can be called.
        let namespace = self.intern(namespace);
        let Some(namespace) = self.namespace_of.get(&namespace).copied() else {
            return;
        };
        plugin.namespace = namespace;
        self.program.plugins.push(plugin);
        let id = PluginId(self.program.plugins.len() as u32 - 1);
        let short = self.intern(short);
        let defs = &mut self.program.namespaces[namespace.index()].defs;
        if let Some(Def::Plugin(known)) = defs.get(&short)
            && matches!(self.program.plugins[known.index()].body, Body::Native(_))
        {
            // A module has put something else in its place; that one may still call the native one.
            defs.insert(short, Def::Plugin(id));
            return;
        }
        self.register_def(namespace, short, Def::Plugin(id), Loc::NONE);
    }

    /// `classes`: the dataclasses of Python.
    pub fn resolve_plugins(&mut self, classes: &[DataclassInfo]) {
        for at in 0..self.program.plugins.len() {
            let resolved = self.resolve_plugin(at).map_err(|error| {
                let mut error = without_entity(&error, classes).unwrap_or(error);
                error.place = self.program.plugins[at].declared_at.clone();
                error
            });
            self.keep(resolved);
        }
    }

    fn resolve_plugin(&mut self, at: usize) -> Result<(), Fail> {
        let namespace = self.program.plugins[at].namespace;
        let name = self.text(self.program.plugins[at].name).to_owned();
        for parameter in 0..self.program.plugins[at].parameters.len() {
            let declared = self.program.plugins[at].parameters[parameter]
                .declared
                .clone();
            let what = self.program.plugins[at].parameters[parameter].name.clone();
            let ty = self.annotation(namespace, &name, &what, &declared)?;
            self.program.plugins[at].parameters[parameter].ty = ty;
        }
        let declared = self.program.plugins[at].returns_declared.clone();
        let declared = if declared == Annotation::Missing {
            Annotation::Any
        } else {
            declared
        };
        let ty = self.annotation(namespace, &name, "return type", &declared)?;
        self.program.plugins[at].returns = ty;
        Ok(())
    }

    /// The type of the compiler that an annotation of Python means.
    pub(in crate::hir) fn annotation(
        &mut self,
        namespace: NamespaceId,
        plugin: &str,
        what: &str,
        annotation: &Annotation,
    ) -> Result<TypeId, Fail> {
        let ty = match annotation {
            Annotation::Any => Type::Any,
            Annotation::Null => Type::Null,
            Annotation::Missing => {
                let message = format!(
                    "All arguments of plugin '{plugin}' should be annotated: '{what}' has no annotation"
                );
                return Err(runtime(Loc::NONE, message));
            }
            Annotation::Bad(reason) => {
                if reason.starts_with("invalid type") {
                    return Err(typing(Loc::NONE, reason.clone()));
                }
                return Err(fail("InvalidTypeAnnotation", Loc::NONE, reason.clone()));
            }
            Annotation::Model(text) => return self.model_annotation(namespace, text),
            Annotation::Union(members) => {
                let mut types = Vec::new();
                for member in members {
                    let ty = self.annotation(namespace, plugin, what, member)?;
                    if !types.contains(&ty) {
                        types.push(ty);
                    }
                }
                let null = self.program.add_type(Type::Null);
                match types.as_slice() {
                    [inner, other] if *other == null => Type::Nullable(*inner),
                    [other, inner] if *other == null => Type::Nullable(*inner),
                    [only] => return Ok(*only),
                    many if many.contains(&null) => {
                        let rest = many.iter().copied().filter(|ty| *ty != null).collect();
                        Type::Nullable(self.program.add_type(Type::Union(rest)))
                    }
                    _ => Type::Union(types),
                }
            }
            Annotation::List(item) => Type::ListOf(self.annotation(namespace, plugin, what, item)?),
            Annotation::Dict(item) => Type::DictOf(self.annotation(namespace, plugin, what, item)?),
            Annotation::Reference(inner) => {
                Type::Reference(self.annotation(namespace, plugin, what, inner)?)
            }
            Annotation::Literal(values) => {
                let mut literals = Vec::new();
                for value in values {
                    literals.push(match value {
                        rmpv::Value::Boolean(value) => LiteralValue::Bool(*value),
                        rmpv::Value::Integer(value) => {
                            LiteralValue::Int(value.as_i64().unwrap_or(0))
                        }
                        value => LiteralValue::Str(self.intern(value.as_str().unwrap_or(""))),
                    });
                }
                Type::Literal(literals)
            }
        };
        Ok(self.program.add_type(ty))
    }

    /// A type of the model as an annotation writes it. Source: docs/reference/language.md § 10.2.
    fn model_annotation(&mut self, namespace: NamespaceId, text: &str) -> Result<TypeId, Fail> {
        let text = text.trim();
        let special = match text {
            "any" | "expression" => Some(Type::Any),
            "null" => Some(Type::Null),
            "list" => Some(Type::AnyList),
            "dict" => Some(Type::AnyDict),
            // Of Python: not deprecated as the model's own name is.
            "numbers.Number" => Some(Type::Number),
            _ => None,
        };
        if let Some(special) = special {
            return Ok(self.program.add_type(special));
        }
        if let Some(inner) = text.strip_suffix('?') {
            let inner = if matches!(inner, "list" | "dict") {
                let literal = if inner == "list" {
                    Type::List
                } else {
                    Type::Dict
                };
                self.program.add_type(literal)
            } else {
                self.model_annotation(namespace, inner)?
            };
            return Ok(self.program.add_type(Type::Nullable(inner)));
        }
        if let Some(item) = text.strip_suffix("[]") {
            let item = self.model_annotation(namespace, item)?;
            return Ok(self.program.add_type(Type::ListOf(item)));
        }
        let symbol = self.intern(text);
        self.find_type(namespace, symbol, Loc::NONE)
            .map_err(|error| fail(error.kind, Loc::NONE, error.message))
    }
}

/// The error of a type that nobody has, when it is the name of a dataclass of Python.
fn without_entity(error: &Fail, classes: &[DataclassInfo]) -> Option<Fail> {
    let (name, _) = error
        .message
        .strip_prefix("could not find type ")?
        .split_once(" in namespace ")?;
    let class = classes.iter().find(|class| class.entity == name)?;
    if class.problem.as_deref() == Some("a dataclass") {
        return None;
    }
    let python = class.entity.replace("::", ".");
    let message = format!(
        "invalid type <class 'inmanta_plugins.{python}'>, this dataclass has no associated inmanta entity"
    );
    Some(typing(Loc::NONE, message))
}
