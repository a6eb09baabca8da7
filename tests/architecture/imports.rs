//! Import graph of `src/`, file by file: an edge leads from a file to the file that defines what it
//! uses. Re-exports (`pub use`) are followed to the definition and are no edges themselves.
//!
//! Paths are resolved as far as modules, `use` declarations and item names go. Types are not
//! inferred: a method call is no edge, the name of the type is.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use crate::source::{Source, Token, is_word, tokens};

/// The longest chain of re-exports that is followed.
const DEEPEST: usize = 32;

/// Files and the edges between them.
pub(crate) struct Imports {
    files: Vec<String>,
    /// Names used, by the file that uses and the file that defines.
    edges: BTreeMap<(usize, usize), BTreeSet<String>>,
}

/// A module: a file, or a `mod` block in one.
#[derive(Default)]
struct Module {
    file: usize,
    /// Names of types, functions, constants and macros defined here.
    items: HashSet<String>,
    /// Names that `use` declarations bring into scope, and their paths.
    imported: HashMap<String, Vec<String>>,
    /// Paths of `use path::*`.
    globs: Vec<Vec<String>>,
}

/// A path that a file names.
struct Mention {
    file: usize,
    module: String,
    path: Vec<String>,
}

#[derive(Default)]
struct Crate {
    /// By path from the crate's root: ``, `space`, `space::parse`.
    modules: HashMap<String, Module>,
    mentions: Vec<Mention>,
}

impl Imports {
    /// Reads the graph from files whose paths begin with `src/`.
    pub(crate) fn of(sources: &[&Source]) -> Self {
        let mut program = Crate::default();
        for (file, source) in sources.iter().enumerate() {
            let module = module_of(&source.path);
            program.modules.entry(module.clone()).or_default().file = file;
            Reader { program: &mut program, tokens: tokens(&source.code), file, root: module }
                .read();
        }
        let mut edges: BTreeMap<(usize, usize), BTreeSet<String>> = BTreeMap::new();
        for Mention { file, module, path } in &program.mentions {
            if let Some(definer) =
                program.definer(module, path, 0).filter(|definer| definer != file)
            {
                let is_type = |part: &&String| part.starts_with(char::is_uppercase);
                let name = path.iter().find(is_type).or(path.last());
                edges.entry((*file, definer)).or_default().extend(name.cloned());
            }
        }
        Self { files: sources.iter().map(|source| source.path.clone()).collect(), edges }
    }

    /// The edges, as paths of files.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (&str, &str)> {
        self.edges.keys().map(|&(from, to)| (self.files[from].as_str(), self.files[to].as_str()))
    }

    /// Strongly connected components of more than one file, largest first (Tarjan).
    pub(crate) fn circles(&self) -> Vec<Vec<&str>> {
        let mut uses = vec![Vec::new(); self.files.len()];
        for &(from, to) in self.edges.keys() {
            uses[from].push(to);
        }
        let mut search = Tarjan { uses, ..Tarjan::default() };
        search.place = vec![None; self.files.len()];
        search.low = vec![0; self.files.len()];
        for file in 0..self.files.len() {
            if search.place[file].is_none() {
                search.visit(file);
            }
        }
        let mut circles: Vec<Vec<&str>> = search
            .components
            .iter()
            .filter(|component| component.len() > 1)
            .map(|component| component.iter().map(|&file| self.files[file].as_str()).collect())
            .collect();
        circles.iter_mut().for_each(|circle| circle.sort_unstable());
        circles.sort_by_key(|circle| (usize::MAX - circle.len(), circle[0].to_owned()));
        circles
    }

    /// The edges inside a circle, a line each: `a.rs -> b.rs (Name, Name)`.
    pub(crate) fn drawn(&self, circle: &[&str]) -> String {
        let mut text = String::new();
        for (&(from, to), names) in &self.edges {
            let (from, to) = (self.files[from].as_str(), self.files[to].as_str());
            if circle.contains(&from) && circle.contains(&to) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let _ = writeln!(text, "    {from} -> {to} ({})", names.join(", "));
            }
        }
        text
    }

    /// The graph in the language of Graphviz: a box for each folder, edges inside circles red.
    pub(crate) fn dot(&self) -> String {
        let mut text =
            "digraph imports {\n  rankdir=LR; node [shape=box, fontsize=10];\n".to_owned();
        let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for file in &self.files {
            let inside = file.split_once("src/").map_or(file.as_str(), |(_, inside)| inside);
            let room = inside.split_once('/').map_or("", |(room, _)| room);
            folders.entry(room).or_default().push(file);
        }
        for (room, files) in folders {
            let _ = writeln!(text, "  subgraph \"cluster_{room}\" {{ label=\"{room}\";");
            for file in files {
                let label = file.trim_start_matches("src/").trim_start_matches(room);
                let _ = writeln!(text, "    \"{file}\" [label=\"{}\"];", label.trim_matches('/'));
            }
            text += "  }\n";
        }
        let circles = self.circles();
        for (from, to) in self.edges() {
            let circular =
                circles.iter().any(|circle| circle.contains(&from) && circle.contains(&to));
            let colour = if circular { " [color=red]" } else { "" };
            let _ = writeln!(text, "  \"{from}\" -> \"{to}\"{colour};");
        }
        text + "}\n"
    }
}

#[derive(Default)]
struct Tarjan {
    uses: Vec<Vec<usize>>,
    place: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    visited: usize,
    components: Vec<Vec<usize>>,
}

impl Tarjan {
    fn visit(&mut self, file: usize) {
        let place = self.visited;
        self.visited += 1;
        self.place[file] = Some(place);
        self.low[file] = place;
        self.stack.push(file);
        for used in self.uses[file].clone() {
            match self.place[used] {
                None => {
                    self.visit(used);
                    self.low[file] = self.low[file].min(self.low[used]);
                }
                Some(earlier) if self.stack.contains(&used) => {
                    self.low[file] = self.low[file].min(earlier);
                }
                Some(_) => {}
            }
        }
        if self.low[file] == place {
            let start = self.stack.iter().position(|&on| on == file).unwrap_or(0);
            self.components.push(self.stack.split_off(start));
        }
    }
}

/// The module that a file is: `src/space/mod.rs` is `space`, `src/lib.rs` the root.
fn module_of(path: &str) -> String {
    let inside = path.split_once("src/").map_or(path, |(_, inside)| inside);
    let stem = inside.strip_suffix(".rs").unwrap_or(inside);
    match stem {
        "lib" => String::new(),
        // A crate of its own, which reaches the library by its name.
        "main" => "(main)".to_owned(),
        stem => stem.strip_suffix("/mod").unwrap_or(stem).replace('/', "::"),
    }
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

impl Crate {
    /// The file that defines what `path` names in `module`; `None` for modules, other crates' items
    /// and local names.
    fn definer(&self, module: &str, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        if depth > DEEPEST {
            return None;
        }
        match first.as_str() {
            "crate" | "gemm_tune" => self.within("", rest, depth),
            "self" => self.within(module, rest, depth),
            "super" => self.within(parent(module), rest, depth),
            name if self.modules.get(module).is_some_and(|own| own.has(name))
                || self.modules.contains_key(&join(module, name)) =>
            {
                self.within(module, path, depth)
            }
            _ => self.through_globs(module, path, depth),
        }
    }

    /// As [`Self::definer`], for a path through a glob: only names that are known to be there.
    fn known(&self, module: &str, path: &[String], depth: usize) -> Option<usize> {
        let (name, place) = path.split_last()?;
        let place = self.module(module, place, depth)?;
        let own = self.modules.get(&place)?;
        if own.has(name) || self.modules.contains_key(&join(&place, name)) {
            return self.within(&place, std::slice::from_ref(name), depth);
        }
        self.through_globs(&place, std::slice::from_ref(name), depth)
    }

    /// What the globs of a module bring into scope.
    fn through_globs(&self, module: &str, path: &[String], depth: usize) -> Option<usize> {
        let globs = &self.modules.get(module)?.globs;
        globs
            .iter()
            .filter(|_| depth < DEEPEST)
            .find_map(|glob| self.known(module, &[glob.as_slice(), path].concat(), depth + 1))
    }

    /// The module that a path names.
    fn module(&self, module: &str, path: &[String], depth: usize) -> Option<String> {
        if depth > DEEPEST {
            return None;
        }
        let Some((first, rest)) = path.split_first() else { return Some(module.to_owned()) };
        match first.as_str() {
            "crate" | "gemm_tune" => self.module("", rest, depth),
            "self" => self.module(module, rest, depth),
            "super" => self.module(parent(module), rest, depth),
            name => {
                let child = join(module, name);
                if self.modules.contains_key(&child) {
                    return self.module(&child, rest, depth);
                }
                let imported = self.modules.get(module)?.imported.get(name)?;
                self.module(module, &[imported.as_slice(), rest].concat(), depth + 1)
            }
        }
    }

    /// What `path` names, all of it inside `module`.
    fn within(&self, module: &str, path: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        if first == "self" {
            return self.within(module, rest, depth);
        }
        if first == "super" {
            return self.within(parent(module), rest, depth);
        }
        let own = self.modules.get(module)?;
        let child = join(module, first);
        let is_module = self.modules.contains_key(&child);
        // A name may be a module's and a function's: the last part of a path is the function.
        if is_module && !(rest.is_empty() && own.has(first)) {
            return self.within(&child, rest, depth);
        }
        if own.items.contains(first) {
            return Some(own.file);
        }
        if let Some(imported) = own.imported.get(first) {
            return self.definer(module, &[imported.as_slice(), rest].concat(), depth + 1);
        }
        let through_glob = self.through_globs(module, std::slice::from_ref(first), depth);
        // What no declaration names, a macro of this file defines.
        through_glob.or(Some(own.file))
    }
}

impl Module {
    fn has(&self, name: &str) -> bool {
        self.items.contains(name) || self.imported.contains_key(name)
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// Reads a file's modules, items, `use` declarations and paths.
struct Reader<'a> {
    program: &'a mut Crate,
    tokens: Vec<Token<'a>>,
    file: usize,
    root: String,
}

impl Reader<'_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn read(mut self) {
        // A name for each brace that opens a module, nothing for others.
        let mut open: Vec<Option<String>> = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let module =
                open.iter().flatten().fold(self.root.clone(), |path, name| join(&path, name));
            let at_module = open.iter().all(Option::is_some);
            let next = self.text(at + 1).to_owned();
            match self.text(at) {
                "{" => open.push(None),
                "}" => drop(open.pop()),
                "mod" if self.text(at + 2) == "{" => {
                    let file = self.file;
                    self.program.modules.entry(join(&module, &next)).or_default().file = file;
                    open.push(Some(next));
                    at += 2;
                }
                "mod" => at += 1,
                "use" if next != "<" => {
                    let public = matches!(self.text(at.wrapping_sub(1)), "pub" | ")");
                    at = self.declaration(at + 1, &[], &module, public);
                }
                "struct" | "enum" | "union" | "trait" | "fn" | "const" | "static" | "type"
                    if at_module && next.starts_with(is_word) =>
                {
                    self.module(&module).items.insert(next);
                    at += 1;
                }
                "macro_rules" if at_module => {
                    let name = self.text(at + 2).to_owned();
                    self.module(&module).items.insert(name);
                    at += 2;
                }
                word if word.starts_with(is_word) => {
                    at = self.mention(at, &module);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn module(&mut self, path: &str) -> &mut Module {
        self.program.modules.entry(path.to_owned()).or_default()
    }

    /// A path in code; returns where it ends. A field or method is none.
    fn mention(&mut self, start: usize, module: &str) -> usize {
        let mut at = start;
        let mut path = vec![self.text(at).to_owned()];
        at += 1;
        while self.text(at) == "::" && self.text(at + 1).starts_with(is_word) {
            path.push(self.text(at + 1).to_owned());
            at += 2;
        }
        let before = self.text(start.wrapping_sub(1));
        // A lone word in lower case is a variable, unless it is called.
        let variable = path.len() == 1
            && path[0].starts_with(|c: char| c.is_lowercase() || c == '_')
            && !matches!(self.text(at), "(" | "!");
        if before != "." && before != "fn" && !variable {
            self.program.mentions.push(Mention {
                file: self.file,
                module: module.to_owned(),
                path,
            });
        }
        at
    }

    /// A tree of a `use` declaration; returns where it ends.
    fn declaration(
        &mut self,
        mut at: usize,
        before: &[String],
        module: &str,
        public: bool,
    ) -> usize {
        let mut path = before.to_vec();
        loop {
            match self.text(at) {
                "{" => {
                    at += 1;
                    while !matches!(self.text(at), "}" | "") {
                        at = if self.text(at) == "," {
                            at + 1
                        } else {
                            self.declaration(at, &path, module, public)
                        };
                    }
                    return at + 1;
                }
                "*" => {
                    self.module(module).globs.push(path);
                    return at + 1;
                }
                "self" if !path.is_empty() => {}
                part => path.push(part.to_owned()),
            }
            at += 1;
            if self.text(at) != "::" {
                break;
            }
            at += 1;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.text(at) == "as" {
            name = self.text(at + 1).to_owned();
            at += 2;
        }
        if !public {
            let (file, module) = (self.file, module.to_owned());
            self.program.mentions.push(Mention { file, module, path: path.clone() });
        }
        self.module(module).imported.insert(name, path);
        at
    }
}
