//! Partial exports and how they are merged. Source: docs/reference/language.md § 12.6, § 12.9.

use steward_compiler::{
    Compiled, Export, MemWorld, Options, Partial, PartialError, Resource, compile, merge_partial,
};

const RESOURCES: &str = "
import std::testing
entity Part:
    string name
    string value = \"\"
    string? set = null
end
Part.needs [0:] -- Part.needed_by [0:]
Part.resource [1] -- std::testing::NullResource
index Part(name)
implementation part for Part:
    self.resource = std::testing::NullResource(name=self.name, value=self.value)
    self.resource.requires = [other.resource for other in self.needs]
end
implementation member for Part:
    group = std::ResourceSet(name=self.set)
    group.resources += self.resource
end
implement Part using part
implement Part using member when self.set != null
";

fn compiled(model: &str, partial: Option<&[&str]>) -> Compiled {
    let world = MemWorld::default()
        .file("project.yml", "name: case")
        .file("main.cf", &format!("{RESOURCES}\n{model}"));
    let options = Options {
        export: true,
        partial: partial.map(|sets| Partial {
            sets: sets.iter().map(|set| (*set).to_owned()).collect(),
        }),
        ..Options::default()
    };
    compile(&world, &options)
}

#[track_caller]
fn export(model: &str, partial: Option<&[&str]>) -> Export {
    let compiled = compiled(model, partial);
    let Some(export) = compiled.export else {
        panic!("{:#?}", compiled.diagnostics);
    };
    export
}

#[track_caller]
fn refused(model: &str, partial: &[&str]) -> String {
    let compiled = compiled(model, Some(partial));
    assert!(compiled.export.is_none(), "{model} is exported");
    compiled.diagnostics[0].message.clone()
}

/// `name(set)=value<requires` of every resource, sorted.
fn summary(resources: &[Resource]) -> Vec<String> {
    let name = |id: &str| {
        id.rsplit_once("name=")
            .expect("they have names")
            .1
            .trim_end_matches(']')
            .to_owned()
    };
    let mut all: Vec<String> = resources
        .iter()
        .map(|resource| {
            let attributes: serde_json::Value =
                serde_json::from_str(&resource.attributes).expect("attributes are JSON");
            let requires: Vec<String> = resource.requires.iter().map(|id| name(id)).collect();
            format!(
                "{}({})={}<{}",
                name(&resource.id),
                resource.resource_set.as_deref().unwrap_or("-"),
                attributes["value"].as_str().expect("values are texts"),
                requires.join(",")
            )
        })
        .collect();
    all.sort();
    all
}

const BASE: &str = r#"
shared = Part(name="shared", value="s")
Part(name="a1", set="a", needs=[shared])
Part(name="a2", set="a", needs=[Part[name="a1"]])
Part(name="b1", set="b", needs=[shared])
late = Part(name="late", needs=[Part[name="a2"], Part[name="b1"]])
"#;

#[track_caller]
fn check_merged(partial: &str, sets: &[&str], wanted: &[&str]) {
    let base = export(BASE, None);
    let partial = export(partial, Some(sets));
    let merged = merge_partial(&base.resources, &partial).expect("they go together");
    assert_eq!(summary(&merged), wanted);
}

#[track_caller]
fn merge_error(partial: &str, sets: &[&str]) -> PartialError {
    let base = export(BASE, None);
    merge_partial(&base.resources, &export(partial, Some(sets)))
        .expect_err("they do not go together")
}

#[test]
//: lang 193
fn resources_are_in_their_sets_and_sets_without_exported_members_are_removed() {
    let export = export(
        r#"
            Part(name="a", set="one")
            Part(name="b", set="one")
            Part(name="c", set="two")
            Part(name="shared")
            std::ResourceSet(name="empty")
            off = std::testing::NullResource(name="off", managed=false)
            std::ResourceSet(name="of-unmanaged", resources=off)
            std::ResourceSet(name="one")
        "#,
        None,
    );
    let summary = summary(&export.resources);
    assert_eq!(summary, ["a(one)=<", "b(one)=<", "c(two)=<", "shared(-)=<"]);
    let mut removed = export.removed_sets;
    removed.sort();
    assert_eq!(removed, ["empty", "of-unmanaged"]);
}

#[test]
//: lang 195; lsm 81
fn sets_of_the_export_replace_those_that_are_there() {
    check_merged(
        r#"
            shared = Part(name="shared", value="s")
            Part(name="a1", value="new", set="a", needs=[shared])
            Part(name="a3", set="a")
        "#,
        &["a"],
        &[
            "a1(a)=new<shared",
            "a3(a)=<",
            "b1(b)=<shared",
            "late(-)=<b1",
            "shared(-)=s<",
        ],
    );
}

#[test]
//: lang 195; lsm 80
fn a_set_that_the_compile_is_for_and_that_has_no_resource_is_removed() {
    check_merged(
        r#"shared = Part(name="shared", value="s")"#,
        &["b"],
        &["a1(a)=<shared", "a2(a)=<a1", "late(-)=<a2", "shared(-)=s<"],
    );
}

#[test]
//: lang 195; lsm 85
fn shared_resources_are_added_and_their_requirements_come_together() {
    check_merged(
        r#"
            Part(name="late", needs=[Part(name="a1", set="a"), Part(name="more")])
        "#,
        &["a"],
        &[
            "a1(a)=<",
            "b1(b)=<shared",
            "late(-)=<a1,b1,more",
            "more(-)=<",
            "shared(-)=s<",
        ],
    );
}

#[test]
//: lang 195; lsm 84
fn a_shared_resource_stays_as_it_is() {
    let error = merge_error(r#"Part(name="shared", value="other")"#, &[]);
    let id = "std::testing::NullResource[internal,name=shared]";
    assert_eq!(error, PartialError::SharedChanged(id.to_owned()));
}

#[test]
//: lang 195; lsm 86
fn a_resource_moves_only_between_sets_that_are_exported_together() {
    let moved = r#"Part(name="b1", set="a")"#;
    assert!(
        matches!(merge_error(moved, &["a"]), PartialError::Moved { from, to, .. } if (from.as_str(), to.as_str()) == ("b", "a"))
    );
    let shared = r#"Part(name="shared", value="s", set="a")"#;
    assert!(
        matches!(merge_error(shared, &["a"]), PartialError::Moved { from, .. } if from == "<SHARED>")
    );
    check_merged(
        r#"Part(name="b1", set="a")"#,
        &["a", "b"],
        &["b1(a)=<", "late(-)=<", "shared(-)=s<"],
    );
}

#[test]
//: lang 195
fn a_partial_compile_exports_only_the_sets_that_it_is_for() {
    let message = refused(r#"Part(name="b1", set="b")"#, &["a"]);
    assert!(
        message.ends_with("is part of ResourceSet b, which this partial compile is not for"),
        "{message}"
    );
    let any = export(r#"Part(name="b1", set="b")"#, Some(&[]));
    assert_eq!(summary(&any.resources), ["b1(b)=<"]);
}

#[test]
//: lang 195; lsm 87
fn resources_of_different_sets_do_not_depend_on_one_another() {
    let model = r#"Part(name="a1", set="a", needs=[Part(name="b1", set="b")])"#;
    let message = refused(model, &["a", "b"]);
    assert_eq!(
        message,
        "A dependency exists between resources std::testing::NullResource[internal,name=a1] and \
         std::testing::NullResource[internal,name=b1], but they belong to different resource sets."
    );
    // A whole compile may.
    export(model, None);
}
