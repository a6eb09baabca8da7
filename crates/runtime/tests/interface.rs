//! The public items of the crate, compared with the committed list: `snapshots/interface__public_items.snap`. A change of
//! it is a change of the crate's interface. `INSTA_UPDATE=always cargo test -p gemm-tune-runtime` writes it anew.
//!
//! The list is made from the sources: what `lib.rs` exports and does not hide, its public fields and functions, and its
//! implementations of traits.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{
    Attribute, Block, Fields, ImplItem, Item, ItemImpl, Meta, TraitItem, Type, UseTree, Visibility,
    parse_quote,
};

/// Names that come from other crates.
const FOREIGN: [&str; 2] = ["cudarc", "model"];

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string() == "hidden")
    })
}

/// Keeps attributes that others see: derived traits, and conditions.
fn strip(attributes: &mut Vec<Attribute>) {
    let kept = ["derive", "cfg", "must_use", "non_exhaustive"];
    attributes.retain(|attribute| kept.iter().any(|name| attribute.path().is_ident(name)));
}

/// Names that a `use` brings in.
fn names(tree: &UseTree, found: &mut Vec<String>) {
    match tree {
        UseTree::Path(path) => names(&path.tree, found),
        UseTree::Name(name) => found.push(name.ident.to_string()),
        UseTree::Rename(renamed) => found.push(renamed.rename.to_string()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| names(tree, found)),
        UseTree::Glob(_) => panic!("exports are listed one by one"),
    }
}

/// Names that the crate exports and shows.
fn exported(root: &syn::File) -> Vec<String> {
    let mut found = Vec::new();
    for item in &root.items {
        match item {
            Item::Use(exports)
                if matches!(exports.vis, Visibility::Public(_)) && !is_hidden(&exports.attrs) =>
            {
                names(&exports.tree, &mut found);
            }
            Item::Mod(module) => {
                let is_shown = matches!(module.vis, Visibility::Public(_));
                assert!(!is_shown || is_hidden(&module.attrs), "`{}` is shown", module.ident);
            }
            _ => {}
        }
    }
    found.retain(|name| !FOREIGN.contains(&name.as_str()));
    found.sort();
    found
}

fn empty() -> Block {
    parse_quote!({})
}

fn public_fields(fields: &mut Fields) {
    match fields {
        Fields::Named(named) => {
            let all = std::mem::take(&mut named.named).into_iter();
            let public = all.filter(|field| matches!(field.vis, Visibility::Public(_)));
            named.named = public
                .map(|mut field| {
                    strip(&mut field.attrs);
                    field
                })
                .collect();
        }
        Fields::Unnamed(unnamed) => {
            let is_public = |field: &syn::Field| matches!(field.vis, Visibility::Public(_));
            if !unnamed.unnamed.iter().all(is_public) {
                unnamed.unnamed.clear();
            }
        }
        Fields::Unit => {}
    }
}

/// An item as others see it, with its name; `None` for other items.
fn seen(item: &Item) -> Option<(String, Item)> {
    let mut item = item.clone();
    let name = match &mut item {
        Item::Struct(own) => {
            strip(&mut own.attrs);
            public_fields(&mut own.fields);
            own.ident.to_string()
        }
        Item::Enum(own) => {
            strip(&mut own.attrs);
            for variant in &mut own.variants {
                strip(&mut variant.attrs);
                variant.fields.iter_mut().for_each(|field| strip(&mut field.attrs));
            }
            own.ident.to_string()
        }
        Item::Trait(own) => {
            strip(&mut own.attrs);
            for item in &mut own.items {
                match item {
                    TraitItem::Fn(function) => strip(&mut function.attrs),
                    TraitItem::Const(constant) => strip(&mut constant.attrs),
                    TraitItem::Type(associated) => strip(&mut associated.attrs),
                    _ => {}
                }
            }
            own.ident.to_string()
        }
        Item::Fn(own) => {
            strip(&mut own.attrs);
            *own.block = empty();
            own.sig.ident.to_string()
        }
        _ => return None,
    };
    Some((name, item))
}

/// An implementation as others see it, with the name of its type; `None` where nothing is public.
fn seen_impl(item: &ItemImpl) -> Option<(String, Item)> {
    let Type::Path(own) = item.self_ty.as_ref() else { return None };
    let name = own.path.segments.last()?.ident.to_string();
    let mut item = item.clone();
    strip(&mut item.attrs);
    if item.trait_.is_some() {
        item.items.clear();
        return Some((name, Item::Impl(item)));
    }
    item.items.retain_mut(|part| match part {
        ImplItem::Fn(function) => {
            let is_shown =
                matches!(function.vis, Visibility::Public(_)) && !is_hidden(&function.attrs);
            strip(&mut function.attrs);
            function.block = empty();
            is_shown
        }
        ImplItem::Const(constant) => {
            let is_shown = matches!(constant.vis, Visibility::Public(_));
            strip(&mut constant.attrs);
            is_shown
        }
        _ => false,
    });
    (!item.items.is_empty()).then_some((name, Item::Impl(item)))
}

#[test]
fn public_items() {
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    let parsed: Vec<(PathBuf, syn::File)> = files
        .into_iter()
        .map(|path| {
            let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
            (path, file)
        })
        .collect();
    let (_, root) = parsed.iter().find(|(path, _)| path.ends_with("lib.rs")).unwrap();
    let exported = exported(root);
    let mut definitions: BTreeMap<String, Item> = BTreeMap::new();
    let mut implementations: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    let mut generated = Vec::new();
    for (_, file) in &parsed {
        let own: Vec<(String, Item)> = file.items.iter().filter_map(seen).collect();
        if own.iter().any(|(name, _)| exported.contains(name)) {
            // Invocations of macros, which write implementations.
            let is_call = |item: &&Item| matches!(item, Item::Macro(call) if call.ident.is_none());
            generated.extend(file.items.iter().filter(is_call).cloned());
        }
        definitions.extend(own);
        for item in &file.items {
            if let Item::Impl(item) = item
                && let Some((name, item)) = seen_impl(item)
            {
                implementations.entry(name).or_default().push(item);
            }
        }
    }
    let mut items = Vec::new();
    for name in &exported {
        let definition = definitions.remove(name);
        items.push(definition.unwrap_or_else(|| panic!("`{name}` is defined nowhere")));
        items.extend(implementations.remove(name).unwrap_or_default());
    }
    items.extend(generated);
    let list = prettyplease::unparse(&syn::File { shebang: None, attrs: Vec::new(), items });
    insta::assert_snapshot!(list);
}

#[test]
fn the_example_of_the_readme_is_that_of_the_documentation() {
    let readme = fs::read_to_string("README.md").unwrap();
    let (_, rest) = readme.split_once("```rust\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let documentation = fs::read_to_string("src/lib.rs").unwrap();
    for line in example.lines() {
        let line = format!("//! {line}");
        assert!(documentation.contains(line.trim_end()), "{line}");
    }
}
