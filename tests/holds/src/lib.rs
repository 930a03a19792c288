//! Assertions that show a clause of the contract (`docs/authors/contract.md`), and a record of those that held.
//!
//! # Purpose
//! `holds!(DET_14 rem, left == right, "after {n} recordings")` asserts the condition. If it holds and the variable [`FOLDER`] is set, it
//! writes one line: which clause, in which column, in which test, at which place. `cargo xtask contract` fills a cell only from such lines
//! of tests that passed. So an assertion that was never reached shows nothing.
//!
//! # Design constraints
//! - The columns are `sim` (the runtime model), `clr` (live runtimes) and `rem` (Remora itself).
//! - A test that runs in several worlds sets the current one with [`Place::in_world`]. An assertion counts for the column of its world.
//! - Every crate can have it as a dev-dependency, so it depends on nothing.
//!
//! # Rejected
//! Counting a test by the clauses in its name: the name says nothing about what the test asserts.
#![forbid(unsafe_code)]

pub mod clauses;
mod place;
mod record;

pub use clauses::{Clause, Column};
pub use place::Place;
#[doc(hidden)]
pub use record::{At, fail, record};
pub use record::{FOLDER, write_line};

/// Asserts a condition that shows a clause of the contract, and records that it held.
///
/// The forms are `holds!(DET_14 rem, condition)`, with several columns `holds!(DET_14 clr rem, condition)`, with several clauses
/// `holds!([DET_04 DET_06] sim, condition)`, and each with a message: `holds!(DET_14 rem, left == right, "format {}", args)`.
/// If a comparison with `==` fails, the panic shows both sides.
///
/// # Panics
/// If the condition is false, or if it names `clr` and no world is set.
#[macro_export]
macro_rules! holds {
    ([$($clause:ident)+] $($column:ident)+, $($rest:tt)+) => {
        $crate::__compare!(
            [$crate::At {
                clauses: &[$($crate::clauses::$clause),+],
                columns: &[$($crate::__column!($column)),+],
                file: file!(),
                line: line!(),
            }]
            [] [$($rest)+] $($rest)+
        )
    };
    ($clause:ident $($column:ident)+, $($rest:tt)+) => {
        $crate::holds!([$clause] $($column)+, $($rest)+)
    };
}

/// A column's name as its value.
#[doc(hidden)]
#[macro_export]
macro_rules! __column {
    (sim) => {
        $crate::Column::Sim
    };
    (clr) => {
        $crate::Column::Clr
    };
    (rem) => {
        $crate::Column::Rem
    };
}

/// Looks for `==` before the message. Where `&&` or `||` is beside it, the condition stays whole.
#[doc(hidden)]
#[macro_export]
macro_rules! __compare {
    ([$($at:tt)+] [$($left:tt)+] [$($all:tt)+] == $($right:tt)+) => {
        $crate::__right!([$($at)+] [$($left)+] [$($right)+] [$($all)+] $($right)+)
    };
    ([$($at:tt)+] [$($left:tt)*] [$($all:tt)+] && $($rest:tt)*) => { $crate::__whole!([$($at)+] $($all)+) };
    ([$($at:tt)+] [$($left:tt)*] [$($all:tt)+] || $($rest:tt)*) => { $crate::__whole!([$($at)+] $($all)+) };
    ([$($at:tt)+] [$($left:tt)*] [$($all:tt)+] , $($rest:tt)*) => { $crate::__whole!([$($at)+] $($all)+) };
    ([$($at:tt)+] [$($left:tt)*] [$($all:tt)+]) => { $crate::__whole!([$($at)+] $($all)+) };
    ([$($at:tt)+] [$($left:tt)*] [$($all:tt)+] $next:tt $($rest:tt)*) => {
        $crate::__compare!([$($at)+] [$($left)* $next] [$($all)+] $($rest)*)
    };
}

/// Checks that what follows `==` is one operand.
#[doc(hidden)]
#[macro_export]
macro_rules! __right {
    ([$($at:tt)+] [$($left:tt)+] [$($right:tt)+] [$($all:tt)+] && $($rest:tt)*) => { $crate::__whole!([$($at)+] $($all)+) };
    ([$($at:tt)+] [$($left:tt)+] [$($right:tt)+] [$($all:tt)+] || $($rest:tt)*) => { $crate::__whole!([$($at)+] $($all)+) };
    ([$($at:tt)+] [$($left:tt)+] [$($right:tt)+] [$($all:tt)+] , $($rest:tt)*) => {
        $crate::__sides!([$($at)+] [$($left)+] $($right)+)
    };
    ([$($at:tt)+] [$($left:tt)+] [$($right:tt)+] [$($all:tt)+]) => {
        $crate::__sides!([$($at)+] [$($left)+] $($right)+)
    };
    ([$($at:tt)+] [$($left:tt)+] [$($right:tt)+] [$($all:tt)+] $next:tt $($rest:tt)*) => {
        $crate::__right!([$($at)+] [$($left)+] [$($right)+] [$($all)+] $($rest)*)
    };
}

/// Asserts a comparison.
#[doc(hidden)]
#[macro_export]
macro_rules! __sides {
    ([$at:expr] [$left:expr] $right:expr $(, $($message:tt)*)?) => {
        match (&$left, &$right) {
            (left, right) => {
                if !(*left == *right) {
                    let sides = ::std::format!("\n  left: {left:?}\n right: {right:?}");
                    $crate::fail(&$at, stringify!($left == $right), &sides, $crate::__message!($($($message)*)?));
                }
                $crate::record(&$at);
            }
        }
    };
}

/// Asserts any condition.
#[doc(hidden)]
#[macro_export]
macro_rules! __whole {
    ([$at:expr] $condition:expr $(, $($message:tt)*)?) => {{
        if !$condition {
            $crate::fail(&$at, stringify!($condition), "", $crate::__message!($($($message)*)?));
        }
        $crate::record(&$at);
    }};
}

/// The message of an assertion, which may have none.
#[doc(hidden)]
#[macro_export]
macro_rules! __message {
    () => {
        ::std::string::String::new()
    };
    ($($message:tt)+) => {
        ::std::format!($($message)+)
    };
}
