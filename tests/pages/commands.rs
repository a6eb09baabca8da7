//! `docs/reference/commands.md`: every command with every argument, of the tree that the command line is parsed with.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::{COMMAND, assert_generated, cell};

const PAGE: &str = "docs/reference/commands.md";

#[test]
fn the_page_of_commands_has_every_command_and_argument() {
    let mut tree = gemm_tune::cli::command();
    tree.build();
    let mut page = format!(
        "# Commands\n\n\
         Generated from the program's own command tree by `{COMMAND}`. Do not edit this page.\n\
         `gemm-tune SHAPE` without a command is `gemm-tune tune SHAPE`.\n\n\
         | command | what it does |\n|---|---|\n"
    );
    let mut sections = String::new();
    for command in tree.get_subcommands().filter(|command| is_shown(command)) {
        describe(command, &mut page, &mut sections);
    }
    assert_generated(PAGE, &format!("{page}\n{}\n", sections.trim_end()));
}

fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// Adds a line to the list of commands and a section, and does the same for its subcommands.
fn describe(command: &Command, list: &mut String, sections: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(|about| cell(&about.to_string())).unwrap_or_default();
    let anchor = name.replace(' ', "-");
    writeln!(list, "| [`{name}`](#{anchor}) | {about} |").unwrap();
    writeln!(sections, "## {name}\n\n{about}.\n").unwrap();
    let shown = |argument: &&Arg| {
        !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for argument in &arguments {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    for heading in headings {
        if let Some(heading) = heading {
            writeln!(sections, "{heading}:\n").unwrap();
        }
        sections.push_str("| argument | default | meaning |\n|---|---|---|\n");
        for argument in arguments.iter().filter(|own| own.get_help_heading() == heading) {
            sections.push_str(&line(argument));
        }
        sections.push('\n');
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        writeln!(sections, "```text\n{}\n```\n", after.to_string().trim()).unwrap();
    }
    for subcommand in command.get_subcommands().filter(|command| is_shown(command)) {
        describe(subcommand, list, sections);
    }
}

/// An argument's line of the table.
fn line(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut meaning = help.map(|help| cell(&help.to_string())).unwrap_or_default();
    // What the help text says of the default stands in its own column.
    let mut default = String::new();
    if let Some((before, rest)) = meaning.clone().split_once(" [default: ")
        && let Some((said, after)) = rest.split_once(']')
    {
        default = said.to_owned();
        meaning = format!("{before}{after}");
    }
    let values: Vec<_> =
        argument.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    if argument.get_action().takes_values()
        && !values.is_empty()
        && !argument.is_hide_default_value_set()
    {
        default = format!("`{}`", values.join(" "));
    }
    if argument.is_required_set() {
        "required".clone_into(&mut default);
    }
    let possible: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), cell(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if argument.get_action().takes_values() && !possible.is_empty() {
        write!(meaning, ". Values: {}", possible.join(", ")).unwrap();
    }
    if let Some(variable) = argument.get_env() {
        write!(meaning, ". Environment: `{}`", variable.to_string_lossy()).unwrap();
    }
    format!("| `{}` | {default} | {meaning} |\n", spelled(argument).replace('|', "\\|"))
}

/// An argument as it is typed, with the names of its values.
fn spelled(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}"));
    let options: Vec<String> = short.into_iter().chain(long).collect();
    let several = argument.get_num_args().is_some_and(|count| count.max_values() > 1);
    let values = if argument.get_action().takes_values() { names.join(" ") } else { String::new() };
    if options.is_empty() {
        return format!("{values}{}", if several { "..." } else { "" });
    }
    let optional = argument.get_num_args().is_some_and(|count| count.min_values() == 0);
    let values = match (values.is_empty(), optional) {
        (true, _) => String::new(),
        (false, true) => format!("[={values}]"),
        (false, false) => format!(" {values}"),
    };
    options.join(", ") + &values
}
