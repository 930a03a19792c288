//! Prints the ways to break the model, one a line: its name, a tab, what the model then does wrong. `cargo xtask contract --mutate` reads it.
#![allow(clippy::print_stdout, reason = "an example prints")]

fn main() {
    for (name, wrong) in remora_clr_sim::mutation::ALL {
        println!("{name}\t{wrong}");
    }
}
