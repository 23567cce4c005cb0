//! Models of other shapes, which nothing was made for: each has a module of its own and so many lines that use it. They are
//! measured when they are named (`cargo bench --bench compile -- getters lists`), or all with `shapes`.

use std::fmt::Write;
use std::path::Path;

/// One of them.
pub struct Shape {
    pub name: &'static str,
    /// How many things of it are measured.
    pub n: usize,
    model: &'static str,
    python: &'static str,
    line: fn(usize) -> String,
}

macro_rules! shape {
    ($name:literal, $n:literal, $line:expr) => {
        Shape {
            name: $name,
            n: $n,
            model: include_str!(concat!("shapes/", $name, ".cf")),
            python: include_str!(concat!("shapes/", $name, ".py")),
            line: $line,
        }
    };
}

pub const ALL: [Shape; 10] = [
    shape!("getters", 3000, |at| {
        let site = match at % 50 {
            0 => format!("shape::Site(name=\"s{0}\", region=\"r{0}\")\n", at / 50),
            _ => String::new(),
        };
        format!(
            "{site}shape::Port(name=\"p{at}\", device=\"d{}\", number={at}, tags=[\"t{}\", \"all\"], site=shape::Site[name=\"s{}\"])",
            at % 40,
            at % 7,
            at / 50
        )
    }),
    shape!("lists", 1000, |at| format!(
        "shape::Link(name=\"link{at}\", number={at})"
    )),
    shape!("conditions", 1500, |at| format!(
        "shape::Check(host=\"h{at}.example.org\", port={})",
        at + 1
    )),
    shape!("dataclasses", 1500, |at| format!(
        "shape::Pool(name=\"pool{at}\", number={at})"
    )),
    shape!("relations", 1500, |at| format!(
        "r{at} = shape::Router(name=\"r{at}\", settings={{\"mtu\": 1500, \"dns\": [\"10.0.0.1\", \"10.0.0.2\"]}})\n\
         shape::Interface(name=\"a\", vlan={}, router=r{at})\n\
         shape::Interface(name=\"b\", vlan=7, router=r{at})",
        at % 4000
    )),
    shape!("anything", 1500, |at| format!(
        "shape::Network(name=\"n{at}\", cidr=\"10.{}.{}.0/24\", number={at})",
        at / 250,
        at % 250
    )),
    shape!("templates", 1500, |at| format!(
        "r{at} = shape::Router(name=\"r{at}\", number={at}, servers=[\"10.0.0.1\", \"10.0.0.{}\"])\n\
         r{at}.ports = [shape::Port(name=\"a\", vlan={}), shape::Port(name=\"b\", vlan=7)]",
        at % 250,
        at % 4000
    )),
    shape!("hub", 10_000, |at| {
        let hub = match at {
            0 => "shape::Hub(name=\"hub\")\n",
            _ => "",
        };
        format!("{hub}shape::Spoke(name=\"spoke{at}\", number={at}, hub=shape::Hub[name=\"hub\"])")
    }),
    shape!("columns", 1000, |at| {
        let owner = match at % 50 {
            0 => format!("shape::Owner(name=\"o{}\")\n", at / 50),
            _ => String::new(),
        };
        format!(
            "{owner}shape::Row(name=\"r{at}\", size={at}, owner=shape::Owner[name=\"o{}\"])",
            at / 50
        )
    }),
    shape!("vault", 1000, |at| format!(
        "b{at} = std::create_environment_reference(\"BASE_{}\")\n\
         shape::Secret(name=\"s{at}\", value=shape::vault(b{at}, \"key{at}\"), number=std::create_int_reference(b{at}))\n\
         shape::Secret(name=\"t{at}\", value=shape::vault(\"path/{at}\", \"password\"), number={at})",
        at % 10
    )),
];

/// Writes the project of a shape.
pub fn project(shape: &Shape, directory: &Path) -> std::io::Result<()> {
    let module = directory.join("libs/shape");
    for part in ["model", "plugins", "templates"] {
        std::fs::create_dir_all(module.join(part))?;
    }
    let about = "name: shape\nversion: 1.0.0\nlicense: Apache-2.0\n";
    std::fs::write(module.join("module.yml"), about)?;
    std::fs::write(module.join("model/_init.cf"), shape.model)?;
    std::fs::write(module.join("plugins/__init__.py"), shape.python)?;
    let template = include_str!("shapes/router.tmpl");
    std::fs::write(module.join("templates/router.tmpl"), template)?;
    std::fs::write(
        directory.join("project.yml"),
        "name: bench\nmodulepath: libs\n",
    )?;
    let mut text = "import shape\n\n".to_owned();
    for at in 0..shape.n {
        let _ = writeln!(text, "{}", (shape.line)(at));
    }
    std::fs::write(directory.join("main.cf"), text)
}
