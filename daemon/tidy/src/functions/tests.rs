// SPDX-License-Identifier: Apache-2.0

use super::{Function, end_of_item, functions};
use crate::mask::{Kind, Language, kinds, only};

fn found(source: &str, language: Language) -> Vec<(String, usize, usize)> {
    let chars: Vec<char> = source.chars().collect();
    let code = only(&chars, &kinds(&chars, language), Kind::Code);
    let triple = |Function { name, line, lines }| (name, line, lines);
    functions(&code, language).into_iter().map(triple).collect()
}

fn one(name: &str, line: usize, lines: usize) -> (String, usize, usize) {
    (name.to_owned(), line, lines)
}

/// The line after the item of Rust that starts in the first line.
fn end(source: &str) -> usize {
    end_of_item(&source.lines().collect::<Vec<_>>(), 0)
}

#[test]
fn an_item_ends_at_its_brace() {
    assert_eq!(end("mod a {\n    b();\n\n    c();\n}\n\nfn d() {}\n"), 5);
    assert_eq!(end("fn a();\nfn b();\n"), 1);
}

#[test]
fn a_long_head_belongs_to_the_item() {
    let source =
        "fn a<T>(\n    x: T,\n) -> u8\nwhere\n    T: Copy,\n{\n    1\n}\nconst B: u8 = 1;\n";
    assert_eq!(end(source), 8);
}

#[test]
fn scala_functions_end_with_or_without_braces() {
    let source =
        "object A {\n  def b(x: Int): Int =\n    x + 1\n\n  def c(): Unit = {\n    d()\n  }\n}\n";
    assert_eq!(
        found(source, Language::Scala),
        [one("b", 2, 2), one("c", 5, 3)]
    );
}

#[test]
fn a_scala_body_that_is_a_try_goes_on_after_its_brace() {
    let source =
        "  def a(): Int = try {\n    1\n  } catch {\n    case e: B => 2\n  }\n  val c = 1\n";
    assert_eq!(found(source, Language::Scala), [one("a", 1, 5)]);
}

#[test]
fn the_last_function_of_a_class_does_not_take_the_brace_of_the_class() {
    let source = "object A {\n  def b: Int =\n    1\n}\nobject C\n";
    assert_eq!(found(source, Language::Scala), [one("b", 2, 2)]);
}

#[test]
fn java_methods_differ_from_statements_and_types() {
    let source = "class A {\n  @Override\n  public int b(int c)\n      throws D {\n    \
                  if (c > 1) {\n      return 1;\n    }\n    \
                  for (;;) {\n    }\n  }\n  int e = 1;\n}\n";
    assert_eq!(found(source, Language::Java), [one("b", 3, 8)]);
}
