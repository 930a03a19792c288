//! Which methods are hooked: those whose names match the patterns, of the application unless a pattern names the framework.

use remora_wire::matches_pattern;

/// The patterns.
#[derive(Debug, Default)]
pub struct Choice {
    /// Those to hook; empty for all.
    pub wanted: Vec<String>,
    /// Those of them to leave out.
    pub excluded: Vec<String>,
    /// Whether methods of the framework may be meant.
    pub with_framework: bool,
}

impl Choice {
    /// Whether a method of this name is hooked.
    pub fn includes(&self, name: &str) -> bool {
        let logical = of_async(name);
        let any = |patterns: &[String]| {
            patterns.iter().any(|pattern| {
                matches_pattern(pattern, name) || logical.as_ref().is_some_and(|name| matches_pattern(pattern, name))
            })
        };
        (self.wanted.is_empty() || any(&self.wanted)) && !any(&self.excluded)
    }
}

/// The method whose code is in a state machine: `Shop.Orders.Load` for `Shop.Orders.<Load>d__3.MoveNext`.
fn of_async(name: &str) -> Option<String> {
    let (outer, rest) = name.split_once('<')?;
    let (method, rest) = rest.split_once('>')?;
    (!method.is_empty() && rest.ends_with(".MoveNext")).then(|| format!("{outer}{method}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_by_whole_names_and_async_methods_by_their_own() {
        let choice = |wanted: &[&str], excluded: &[&str]| {
            let owned = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            Choice { wanted: owned(wanted), excluded: owned(excluded), with_framework: false }
        };
        for (wanted, excluded, name, expected) in [
            (&[][..], &[][..], "Shop.Orders.Load", true),
            (&["Shop.*"], &[], "Shop.Orders.Load", true),
            (&["shop.orders.load"], &[], "Shop.Orders.Load", true),
            (&["Shop.Orders"], &[], "Shop.Orders.Load", false),
            (&["Shop.*"], &["*.Load"], "Shop.Orders.Load", false),
            (&["Shop.Orders.Load"], &[], "Shop.Orders.<Load>d__3.MoveNext", true),
            (&["*.MoveNext"], &[], "Shop.Orders.<Load>d__3.MoveNext", true),
            (&["Shop.Orders.Load"], &[], "Shop.Orders.<Load>b__3", false),
        ] {
            assert_eq!(choice(wanted, excluded).includes(name), expected, "{wanted:?} {excluded:?} {name}");
        }
    }
}
