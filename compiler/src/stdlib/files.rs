//! Files of modules and of the project, templates, passwords. Source: docs/reference/std.md § 5.5.

use crate::stdlib::{
    Bound, Model, NativeDef, PluginError, Value, external, native, str_arg, text_value,
};

/// How the text begins that `std::file` gives; the path of the file comes behind it.
pub(crate) const FILE_MARKER: &str = "imp-module-source:file://";

pub(super) fn natives() -> Vec<NativeDef> {
    vec![
        native!(
            "source",
            "path: string -> string",
            |model, args| {
                let path = str_arg(model.heap_ref(), args, 0).to_owned();
                let full = resolve(model, &path, "files")?;
                match model.world().read_text(&full) {
                    Ok(text) => text_value(model, &text),
                    Err(_) => not_a_file(model, &path, &full),
                }
            },
            context = true
        ),
        native!(
            "file",
            "path: string -> string",
            |model, args| {
                let path = str_arg(model.heap_ref(), args, 0).to_owned();
                let full = resolve(model, &path, "files")?;
                if !model.world().is_file(&full) {
                    return not_a_file(model, &path, &full);
                }
                let text = format!("{FILE_MARKER}{}", model.world().absolute(&full));
                text_value(model, &text)
            },
            context = true
        ),
        native!(
            "list_files",
            "path: string -> list",
            |model, args| {
                let path = str_arg(model.heap_ref(), args, 0).to_owned();
                let full = resolve(model, &path, "files")?;
                if !model.world().is_dir(&full) {
                    let full = crate::types::text::quoted(&model.world().absolute(&full));
                    let message = format!("[Errno 2] No such file or directory: {full}");
                    return external("FileNotFoundError", message);
                }
                let names: Vec<String> = model
                    .world()
                    .list(&full)
                    .into_iter()
                    .filter(|name| !name.ends_with('/'))
                    .collect();
                let names: Vec<Value> = names
                    .iter()
                    .map(|name| model.heap().new_str(name))
                    .collect();
                Ok(model.heap().new_list(&names))
            },
            context = true
        ),
        native!(
            "template",
            "path: string, **kwargs: any -> string",
            |model, args| {
                let path = str_arg(model.heap_ref(), args, 0).to_owned();
                let variables = (!args.keywords.is_empty()).then(|| args.keywords.clone());
                model.render(&path, variables)
            },
            context = true
        ),
        native!(
            "generate_password",
            "pw_id: string, length: int = 20 -> string",
            generate_password
        ),
        native!("password", "pw_id: string -> string", |model, args| {
            let id = str_arg(model.heap_ref(), args, 0).to_owned();
            check_id(&id)?;
            match stored_password(model, &id) {
                Some(password) => text_value(model, &password),
                None => external(
                    "Exception",
                    format!("Password {id} does not exist in file {PASSWORD_FILE}"),
                ),
            }
        }),
    ]
}

const PASSWORD_FILE: &str = "data/std/passwordfile.txt";

fn not_a_file(model: &mut dyn Model, path: &str, full: &str) -> Result<Value, PluginError> {
    let full = model.world().absolute(full);
    external("Exception", format!("{path} isn't a valid file ({full})"))
}

/// The path of `module/rest`, `/rest` or `./rest` below a directory of the module or of the project.
pub(super) fn resolve(
    model: &dyn Model,
    path: &str,
    directory: &str,
) -> Result<String, PluginError> {
    if path.split('/').any(|part| part == "..") {
        return external("Exception", format!("{path} leaves its module"));
    }
    if let Some(rest) = path.strip_prefix('/') {
        return Ok(format!("{directory}/{rest}"));
    }
    let (module, rest) = match path.strip_prefix("./") {
        Some(rest) => {
            let module = model.calling_module();
            if module.is_empty() {
                return external(
                    "Exception",
                    format!(
                        "Unable to determine current module for path {path}: the project itself calls"
                    ),
                );
            }
            (module, rest)
        }
        None => {
            let (module, rest) = path.split_once('/').unwrap_or((path, ""));
            (module.to_owned(), rest)
        }
    };
    match model.module_root(&module) {
        Some(root) => Ok(format!("{root}/{directory}/{rest}")),
        None => external(
            "Exception",
            format!("Module {module} does not exist for path {path}"),
        ),
    }
}

fn check_id(id: &str) -> Result<(), PluginError> {
    if id.contains('=') || id.contains('\n') {
        return external("Exception", "The password id cannot contain =");
    }
    Ok(())
}

fn stored_password(model: &dyn Model, id: &str) -> Option<String> {
    let text = model.world().read_text(PASSWORD_FILE).ok()?;
    text.lines().find_map(|line| {
        let (known, password) = line.split_once('=')?;
        (known.trim() == id).then(|| password.trim().to_owned())
    })
}

fn generate_password(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let id = str_arg(model.heap_ref(), args, 0).to_owned();
    check_id(&id)?;
    if let Some(password) = stored_password(model, &id) {
        return text_value(model, &password);
    }
    let length = crate::stdlib::int_arg(args, 1)?.clamp(0, 4096) as usize;
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut password = String::with_capacity(length);
    while password.len() < length {
        let mut bytes = [0u8; 64];
        if let Err(error) = read_random(&mut bytes) {
            return external("OSError", error.to_string());
        }
        // Bytes above the largest multiple of the alphabet would favour some letters.
        let letters = bytes
            .iter()
            .filter(|byte| **byte < 248)
            .map(|byte| LETTERS[*byte as usize % 62] as char);
        password.extend(letters.take(length - password.len()));
    }
    let mut text = model.world().read_text(PASSWORD_FILE).unwrap_or_default();
    text.push_str(&format!("{id}={password}\n"));
    if let Err(error) = model.world().write(PASSWORD_FILE, &text) {
        return external("OSError", error.to_string());
    }
    text_value(model, &password)
}

fn read_random(bytes: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}
