//! What a check knows without running.

use steward_compiler::{Diagnostic, MemWorld, Severity, check};

fn world(text: &str) -> MemWorld {
    MemWorld::default()
        .file("project.yml", "name: case\nmodulepath: libs")
        .file("main.cf", text)
}

fn lines(diagnostics: &[Diagnostic]) -> Vec<String> {
    let line = |diagnostic: &Diagnostic| {
        let place = diagnostic.location.as_ref().map_or(0, |at| at.line);
        let word = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let root = diagnostic.causes.first().unwrap_or(diagnostic);
        let help = diagnostic.help.as_deref().unwrap_or("");
        let text = format!(
            "{place} {word} {}: {} {help}",
            diagnostic.kind, root.message
        );
        text.trim_end().to_owned()
    };
    diagnostics.iter().map(line).collect()
}

#[track_caller]
fn finds(text: &str, expected: &[&str]) {
    assert_eq!(lines(&check(&world(text)).diagnostics), expected);
}

#[test]
fn bodies_that_never_run_are_looked_at() {
    finds(
        "
entity Host:
    string hostname
    int port = 80
end
Host.disks [0:] -- Disk.host [1]
Host.main [0:1] -- Disk
entity Disk:
    int size
end
implementation never for Host:
    a = hostnam
    b = self.prot
    self.port = \"http\"
    self.disk += Disk(size=true)
    self.port += 1
    for disk in self.disks:
        std::print(disk.siez)
    end
    c = [disk.sizes for disk in disks if disk.host.hostname == 1]
    d = self.disks.size
    e = main.host.hostname
    std::print(1, 2)
end
implement Host using never when prot == 1
implement Disk using std::none
",
        &[
            "12 warning NotFoundException: variable hostnam not found did you mean `hostname`?",
            "13 warning NotFoundException: could not find attribute with name: prot in type __config__::Host did you mean `port`?",
            "14 warning AttributeException: Invalid value 'http', expected int",
            "15 warning NotFoundException: could not find attribute with name: disk in type __config__::Host did you mean `disks`?",
            "16 warning TypingException: Can not use += on relations with multiplicity 1",
            "18 warning NotFoundException: could not find attribute with name: siez in type __config__::Disk did you mean `size`?",
            "20 warning NotFoundException: could not find attribute with name: sizes in type __config__::Disk did you mean `size`?",
            "21 warning RuntimeException: can not get attribute size, this is not an entity but a list of __config__::Disk a list comprehension reads it of each: `[x.size for x in …]`",
            "23 warning RuntimeException: std::print() takes 1 positional arguments but 2 were given",
            "25 warning NotFoundException: variable prot not found did you mean `port`?",
        ],
    );
}

#[test]
fn what_runs_in_every_compile_is_in_error() {
    finds(
        "
typedef port as int matching self > 0
entity Host:
    string hostname
    port port = 80
end
entity Lone:
end
host = Host(hostname=1, port=-1)
implement Host using std::none
x = host.hostnam
y = hots
if false:
    hots.port = 3
    z = nothing
end
Lone()
",
        &[
            "9 error AttributeException: Invalid value -1, does not match constraint `(self > 0)`",
            "11 error NotFoundException: could not find attribute with name: hostnam in type __config__::Host did you mean `hostname`?",
            "12 error NotFoundException: variable hots not found did you mean `host`?",
            "14 error NotFoundException: variable hots not found did you mean `host`?",
            "17 error RuntimeException: Unable to select implementation for entity Lone add `implement Lone using std::none`, or an implementation of its own",
            "9 error AttributeException: Invalid value '1', expected string",
            "15 warning NotFoundException: variable nothing not found",
        ],
    );
}

#[test]
fn a_kind_of_the_entity_may_have_the_attribute() {
    finds(
        "
entity Base:
end
entity Disk extends Base:
    int size
end
Base.other [0:1] -- Base
implement Base using std::none
implement Disk using std::none
implementation reads for Base:
    x = self.size
    y = size
    z = other.size
end
implement Base using reads when false
",
        &[],
    );
}

#[test]
fn python_plugins_are_known_by_their_text_and_never_run() {
    let plugins = "from inmanta.plugins import plugin\n@plugin\ndef known(a: \"string\") -> \"string\":\n    raise SystemExit\n";
    let world = world("import m\nimport n\na = m::known(\"x\")\nb = m::made_elsewhere()\nc = n::known()\nd = m::Known()\n")
        .file("libs/m/module.yml", "name: m\nversion: 1.0.0\nlicense: x")
        .file("libs/m/model/_init.cf", "")
        .file("libs/m/plugins/__init__.py", plugins)
        .file("libs/n/module.yml", "name: n\nversion: 1.0.0\nlicense: x")
        .file("libs/n/model/_init.cf", "");
    assert_eq!(
        lines(&check(&world).diagnostics),
        [
            "5 error TypeNotFoundException: could not find type n::known in namespace n",
            "6 error TypeNotFoundException: could not find type m::Known in namespace m did you mean `m::known`?",
        ]
    );
}

#[test]
fn all_files_of_a_project_are_read() {
    let world = world("import m\nx = )\n")
        .file("libs/m/module.yml", "name: m\nversion: 1.0.0\nlicense: x")
        .file("libs/m/model/_init.cf", "import m::sub\nentity a:\nend\n")
        .file("libs/m/model/sub.cf", "typedef t as strin\n");
    let compiled = check(&world);
    let places: Vec<_> = compiled
        .diagnostics
        .iter()
        .filter_map(|diagnostic| diagnostic.location.as_ref())
        .map(|at| format!("{}:{}", at.file, at.line))
        .collect();
    assert_eq!(
        places,
        [
            "main.cf:2",
            "libs/m/model/_init.cf:2",
            "libs/m/model/sub.cf:3"
        ]
    );
}

#[test]
fn kinds_of_other_modules_may_have_what_nothing_constructs_here() {
    let model = |more: &str| {
        format!(
            "entity Element:\n    string path\nend\nimplementation rest for Element:\n    self.path = self.parent.path\n    a = self.pth\nend\nimplement Element using rest\n{more}"
        )
    };
    let typo = "6 warning NotFoundException: could not find attribute with name: pth in type __config__::Element did you mean `path`?";
    finds(&model(""), &[typo]);
    let missing = "5 warning NotFoundException: could not find attribute with name: parent in type __config__::Element";
    finds(&model("e = Element()\n"), &[missing, typo]);
}
