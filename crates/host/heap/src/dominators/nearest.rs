//! From semidominators to immediate dominators: the nearest ancestor not above the semidominator.
//!
//! The walk up is mostly a step or two. But take a list of millions whose last element refers to millions more, all also held from
//! elsewhere.
//! It would take millions of steps for each. When the total exceeds a bound, the tree gets jumps that halve the remaining way.

/// Average steps per number, beyond which walking is too slow.
const STEPS: u64 = 8;

/// For each number its immediate dominator.
pub(super) fn immediate_dominators(parents: &[u32], semi: &[u32]) -> Vec<u32> {
    let mut immediate = Vec::with_capacity(parents.len());
    let mut steps_left = parents.len() as u64 * STEPS;
    for (&parent, &semi) in parents.iter().zip(semi) {
        let mut above = parent;
        while above > semi && steps_left > 0 {
            above = immediate[above as usize];
            steps_left -= 1;
        }
        if above > semi {
            break;
        }
        immediate.push(above);
    }
    if immediate.len() < parents.len() {
        finish_with_jumps(&mut immediate, parents, semi);
    }
    immediate
}

/// A node's depth and an ancestor, so that the walk up continues in jumps that grow with the depth (a skew-binary list).
#[derive(Clone, Copy)]
struct Jump {
    depth: u32,
    to: u32,
}

/// Continues where `immediate` ends.
fn finish_with_jumps(immediate: &mut Vec<u32>, parents: &[u32], semi: &[u32]) {
    let mut jumps = Vec::with_capacity(parents.len());
    jumps.push(Jump { depth: 0, to: 0 });
    for &above in immediate.iter().skip(1) {
        jumps.push(jump_from(&jumps, above));
    }
    for number in immediate.len()..parents.len() {
        let (mut above, semi) = (parents[number], semi[number]);
        while above > semi {
            let jump = jumps[above as usize].to;
            above = if jump >= semi { jump } else { immediate[above as usize] };
        }
        immediate.push(above);
        jumps.push(jump_from(&jumps, above));
    }
}

/// The jump of a child of `above`.
fn jump_from(jumps: &[Jump], above: u32) -> Jump {
    let first = jumps[above as usize];
    let second = jumps[first.to as usize];
    let third = jumps[second.to as usize];
    let even = first.depth - second.depth == second.depth - third.depth;
    Jump { depth: first.depth + 1, to: if even { second.to } else { above } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random trees of some depth (xorshift), with semidominators between the root and the parent.
    fn tree(seed: u64) -> (Vec<u32>, Vec<u32>) {
        let mut state = seed | 1;
        let mut below = |limit: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as u32 % limit
        };
        let (mut parents, mut semi) = (vec![0], vec![0]);
        for number in 1..500 {
            let parent = number - 1 - below(number.min(3));
            parents.push(parent);
            semi.push(if below(4) == 0 { below(parent + 1) } else { parent });
        }
        (parents, semi)
    }

    #[test]
    fn jumps_lead_where_steps_do() {
        for seed in 0..500 {
            let (parents, semi) = tree(seed * 7919 + 1);
            let stepped = immediate_dominators(&parents, &semi);
            for known in [1, 2, 250] {
                let mut jumped = stepped[..known].to_vec();
                finish_with_jumps(&mut jumped, &parents, &semi);
                assert_eq!(jumped, stepped, "seed {seed}, the first {known} known");
            }
        }
    }
}
