//! `docs/modules`: a page for each resource of the module `steward`, made of its documentation in the model and of an
//! example, which is compiled here and, where a machine of its own can, deployed.
//!
//! `STEWARD_UPDATE=1 cargo test -p steward --test it module_pages::` writes the pages anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use steward_compiler::builtin_text;

use crate::harness::{finish, steward};
use crate::machine::Machine;

/// An entity as its text has it.
#[derive(Default)]
struct Entity {
    name: String,
    parents: String,
    about: String,
    /// Name to description.
    described: BTreeMap<String, String>,
    /// Type, name and default, in their order.
    attributes: Vec<[String; 3]>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text() -> &'static str {
    builtin_text("steward/model/_init.cf").expect("the module is built in")
}

/// The entities of a module, of our own layout: one attribute a line, and the documentation first.
fn entities(text: &str) -> Vec<Entity> {
    let mut found = Vec::new();
    for block in text.split("\nentity ").skip(1) {
        let (head, body) = block.split_once(":\n").unwrap();
        let (body, _) = body.split_once("\nend").unwrap();
        let (name, parents) = head.split_once(" extends ").unwrap();
        let (_, body) = body.split_once("\"\"\"").unwrap();
        let (documentation, attributes) = body.split_once("\"\"\"").unwrap();
        let mut entity = Entity {
            name: name.to_owned(),
            parents: parents.to_owned(),
            ..Entity::default()
        };
        let mut parts = documentation.split(":attr ");
        entity.about = joined(parts.next().unwrap());
        for part in parts {
            let (name, description) = part.split_once(':').unwrap();
            entity
                .described
                .insert(name.to_owned(), joined(description));
        }
        for line in attributes
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let (declared, default) = line.split_once(" = ").unwrap_or((line, ""));
            let (kind, name) = declared.split_once(' ').unwrap();
            entity
                .attributes
                .push([kind, name, default].map(str::to_owned));
        }
        found.push(entity);
    }
    found
}

/// Lines of a paragraph in one.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn file_name(entity: &str) -> String {
    let mut name = String::new();
    for letter in entity.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn example(entity: &str) -> PathBuf {
    let name = format!("fixtures/native/{}.cf", file_name(entity));
    root().join(name)
}

fn page(entity: &Entity) -> String {
    let mut page = format!(
        "<!-- Made by tests/it/module_pages.rs from compiler/src/builtin/steward.cf and fixtures/native. -->\n\
         # steward::{}\n\n{}\n\n",
        entity.name, entity.about
    );
    page.push_str("| Attribute | Type | Default | Meaning |\n|---|---|---|---|\n");
    page.push_str("| `host` | `std::Host` | | the machine; its name is the agent |\n");
    for [kind, name, default] in &entity.attributes {
        let description = entity.described.get(name).map_or("", String::as_str);
        let default = match default.as_str() {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        writeln!(page, "| `{name}` | `{kind}` | {default} | {description} |").unwrap();
    }
    if entity.parents.contains("PurgeableResource") {
        page.push_str("| `purged` | `bool` | `false` | it is to be removed |\n");
    }
    let example = fs::read_to_string(example(&entity.name)).unwrap_or_default();
    writeln!(page, "\n## Example\n\n```\n{}\n```", example.trim_end()).unwrap();
    page
}

fn index(entities: &[Entity]) -> String {
    let mut index = String::from(
        "<!-- Made by tests/it/module_pages.rs. -->\n# The module steward\n\n\
         What Steward deploys by itself, without Python code and without a module of others: `import steward`. Each \
         resource is idempotent, has a dry run, and tells what differs attribute by attribute. An attribute that is \
         `null` is not managed.\n\n| Resource | |\n|---|---|\n",
    );
    for entity in entities {
        let first = entity.about.split(". ").next().unwrap_or_default();
        let first = first.trim_end_matches('.');
        let (name, file) = (&entity.name, file_name(&entity.name));
        writeln!(index, "| [steward::{name}]({file}.md) | {first} |").unwrap();
    }
    index
}

#[test]
fn each_resource_has_a_page_that_says_what_its_model_says() {
    let folder = root().join("docs/modules");
    let entities = entities(text());
    let mut pages = vec![("README.md".to_owned(), index(&entities))];
    pages.extend(
        entities
            .iter()
            .map(|entity| (format!("{}.md", file_name(&entity.name)), page(entity))),
    );
    for (name, expected) in pages {
        let path = folder.join(&name);
        if std::env::var_os("STEWARD_UPDATE").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &expected).unwrap();
        }
        let is = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            is == expected,
            "docs/modules/{name} is not what the model says: STEWARD_UPDATE=1 writes it anew"
        );
    }
}

#[test]
fn each_attribute_of_a_resource_is_described() {
    for entity in entities(text()) {
        let names: Vec<&String> = entity.attributes.iter().map(|[_, name, _]| name).collect();
        for name in &names {
            let described = entity.described.get(*name);
            assert!(
                described.is_some_and(|text| !text.is_empty()),
                "{}.{name}",
                entity.name
            );
        }
        for name in entity.described.keys() {
            assert!(
                names.contains(&name),
                "{}.{name} is no attribute",
                entity.name
            );
        }
    }
}

/// A project with the example of an entity.
fn project(entity: &str) -> tempfile::TempDir {
    let project = tempfile::tempdir().unwrap();
    fs::write(project.path().join("project.yml"), "name: example\n").unwrap();
    fs::copy(example(entity), project.path().join("main.cf")).unwrap();
    project
}

#[test]
fn each_example_compiles_into_the_resource_and_is_laid_out_well() {
    for entity in entities(text()) {
        let project = project(&entity.name);
        let exported = project.path().join("out.json");
        let mut command = steward();
        command.args(["compile", "--project"]).arg(project.path());
        command.arg("--export-json").arg(&exported);
        let output = finish(command);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", entity.name);
        let exported = fs::read_to_string(exported).unwrap();
        let id = format!("steward::{}[web1,", entity.name);
        assert!(exported.contains(&id), "{}: {exported}", entity.name);
        let mut command = steward();
        command
            .args(["fmt", "--check"])
            .arg(project.path().join("main.cf"));
        let output = finish(command);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {said}", entity.name);
    }
}

/// What the examples find on their machine.
const PREPARED: &str = r#"set -e
mkdir -p /etc/ssl/private /srv/releases /srv/git/app /etc/cron.d
: > /etc/ssl/private/web.key
cd /srv/releases && mkdir app-2 && echo two > app-2/file && tar czf app-2.tar.gz app-2
cd /srv/git/app && git init -q -b main && echo x > file && git add file
git -c user.name=A -c user.email=a@example.org commit -q -m first
"#;

#[test]
fn the_examples_deploy_and_change_nothing_the_second_time() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.sh(PREPARED);
    for entity in entities(text()) {
        // These need sources of packages, a systemd that runs, and a service in the network.
        if ["Package", "Service", "HttpObject"].contains(&entity.name.as_str()) {
            continue;
        }
        let model = fs::read_to_string(example(&entity.name)).unwrap();
        let model = model.replace("import steward\n", "");
        let first = machine.summary(&model);
        let bad = first.iter().find(|line| !line.contains(" deployed "));
        assert_eq!(bad, None, "{first:#?}");
        let second = machine.summary(&model);
        let changed = second
            .iter()
            .find(|line| !line.ends_with(" deployed nochange"));
        assert_eq!(changed, None, "{}: {second:#?}", entity.name);
        if entity.name == "User" {
            assert_eq!(
                machine.sh("id -nG alice; id -un app"),
                "operators adm\napp\n"
            );
        }
        // For the next example to begin anew with what it names.
        machine.sh("rm -rf /srv/app");
    }
}

#[test]
fn the_example_of_a_service_runs_where_systemd_does() {
    let Some(machine) = Machine::with_systemd() else {
        return;
    };
    let model = fs::read_to_string(example("Service")).unwrap();
    let model = model.replace("import steward\n", "");
    machine.summary(&model);
    assert_eq!(machine.sh("systemctl is-active app"), "active\n");
    let second = machine.summary(&model);
    let changed = second
        .iter()
        .find(|line| !line.ends_with(" deployed nochange"));
    assert_eq!(changed, None, "{second:#?}");
}
