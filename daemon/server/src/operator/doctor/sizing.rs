// SPDX-License-Identifier: Apache-2.0
//! What a daemon needs beside its memory, as `docs/operations.md` has it.

/// This part of its memory, and at least so much.
const PART: u64 = 8;
const LEAST_BYTES: u64 = 192 << 20;

/// What each connection may take that is encrypted with AES/GCM, or with TLS.
const SECRET_BYTES: u64 = 64 << 10;
const TLS_BYTES: u64 = 144 << 10;

/// How connections may be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encrypted {
    /// Not at all.
    No,
    /// With keys from a secret.
    Secret,
    /// With TLS.
    Tls,
}

/// Returns what a process needs beside this memory.
pub(super) fn beside(memory: u64) -> u64 {
    LEAST_BYTES.max(memory / PART)
}

/// Returns what these connections need in addition.
pub(super) fn of_connections(count: usize, encrypted: Encrypted) -> u64 {
    count as u64
        * match encrypted {
            Encrypted::No => 0,
            Encrypted::Secret => SECRET_BYTES,
            Encrypted::Tls => TLS_BYTES,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: &str = include_str!("../../../../../deploy/helm/lodestone/templates/_sizes.tpl");
    const VALUES: &str = include_str!("../../../../../deploy/helm/lodestone/values.yaml");
    const OPERATIONS: &str = include_str!("../../../../../docs/operations.md");
    const DEPLOYMENT: &str = include_str!("../../../../../docs/deployment.md");
    const TROUBLESHOOT: &str = include_str!("../../../../../docs/troubleshoot.md");
    const CONFIGURATION: &str = include_str!("../../../../../docs/configuration.md");

    #[test]
    fn the_chart_and_the_pages_say_what_doctor_wants_beside_the_memory() {
        let least = LEAST_BYTES >> 20;
        for (text, words) in [
            (
                CHART,
                format!("$beside := max {least} (div $memory {PART})"),
            ),
            (VALUES, format!("at least {least}Mi more")),
            (OPERATIONS, format!("and at least {least} MiB more")),
            (TROUBLESHOOT, format!("and at least {least} MiB more")),
            (DEPLOYMENT, format!("an eighth of it, at least {least}Mi")),
            (CONFIGURATION, format!("eighth (at least {least} MiB)")),
        ] {
            assert!(text.contains(&words), "{words}");
        }
        let embedded = 256 + (beside(256 << 20) >> 20);
        assert!(CONFIGURATION.contains(&format!("{embedded} MiB in total")));
        assert!(DEPLOYMENT.contains(&format!("add {embedded} MiB")));
    }

    #[test]
    fn a_daemon_with_more_memory_never_needs_less_in_all() {
        let all = (64..4096).map(|mebibytes: u64| mebibytes << 20);
        let totals: Vec<_> = all.map(|memory| memory + beside(memory)).collect();
        assert!(totals.is_sorted());
    }
}
