//! Signatures of native functions, written as text in their table.

use crate::hir::plugin::Parameter;
use crate::protocol::{Annotation, ParameterKind};
use crate::types::{Heap, TypeId, Value};

/// `a: string, b: int = 3, *args: any, **kwargs: any -> string`
pub fn parse(signature: &str, heap: &mut Heap) -> (Vec<Parameter>, Annotation) {
    let (parameters, returns) = signature.split_once("->").unwrap_or((signature, ""));
    let parameters = parameters
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| {
            let (name, rest) = text.split_once(':').unwrap_or((text, "any"));
            let (kind, name) = match (name.strip_prefix("**"), name.strip_prefix('*')) {
                (Some(name), _) => (ParameterKind::VarKeyword, name),
                (None, Some(name)) => (ParameterKind::VarPositional, name),
                (None, None) => (ParameterKind::Positional, name),
            };
            let (annotation, default) = match rest.split_once('=') {
                Some((annotation, default)) => (annotation.trim(), Some(default.trim())),
                None => (rest.trim(), None),
            };
            Parameter {
                name: name.trim().to_owned(),
                kind,
                declared: parse_annotation(annotation),
                ty: TypeId(0),
                has_default: default.is_some(),
                default: default.map_or(Value::Null, |text| constant(text, heap)),
            }
        })
        .collect();
    let returns = match returns.trim() {
        "" => Annotation::Any,
        text => parse_annotation(text),
    };
    (parameters, returns)
}

/// `string | Reference[string]`, `Sequence[any]`, `Mapping[any]`, else a type of the model.
fn parse_annotation(text: &str) -> Annotation {
    let inner = |prefix: &str| {
        let rest = text.strip_prefix(prefix)?.strip_suffix(']')?;
        Some(Box::new(parse_annotation(rest)))
    };
    if let Some(item) = inner("Sequence[") {
        return Annotation::List(item);
    }
    if let Some(item) = inner("Mapping[") {
        return Annotation::Dict(item);
    }
    if text.contains('|') {
        let members = text
            .split('|')
            .map(|member| parse_annotation(member.trim()));
        return Annotation::Union(members.collect());
    }
    match (text, inner("Reference[")) {
        ("Reference", _) => Annotation::Reference(Box::new(Annotation::Any)),
        (_, Some(of)) => Annotation::Reference(of),
        (text, None) => Annotation::Model(text.to_owned()),
    }
}

fn constant(text: &str, heap: &mut Heap) -> Value {
    match text {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        text => match text.parse() {
            Ok(int) => Value::Int(int),
            Err(_) => heap.new_str(text.trim_matches('"')),
        },
    }
}
