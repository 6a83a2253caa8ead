// SPDX-License-Identifier: Apache-2.0
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

fn app(id: &str) -> AppId {
    AppId::new(id).unwrap()
}

fn write(dir: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// Texts of secrets are compared by what only they open.
fn is(secret: Option<Secret>, text: &str) -> bool {
    use lodestone_auth::exchange::{Challenge, respond};
    let fresh = Fresh {
        private: [1; 32],
        salt: [1; 16],
        iv: [1; 12],
        nonce: [1; 30],
    };
    let other = Secret::new(text.as_bytes()).unwrap();
    let challenge = Challenge::new(&app("a"), &other, &fresh).unwrap();
    secret.is_some_and(|secret| respond(challenge.message(), &secret, &fresh).is_ok())
}

#[test]
fn one_file_has_the_secret_of_all_applications() {
    let dir = TempDir::new().unwrap();
    let file = write(&dir, "secret", "one\n");
    let secrets = Secrets::at(&file).unwrap();
    assert!(is(secrets.of(&app("a")).unwrap(), "one"));
    write(&dir, "secret", "two\n");
    assert!(
        is(secrets.of(&app("b")).unwrap(), "two"),
        "without a restart"
    );
}

#[test]
fn a_directory_has_a_file_for_each_application() {
    let dir = TempDir::new().unwrap();
    write(&dir, "a", "of a");
    let secrets = Secrets::at(dir.path()).unwrap();
    assert!(is(secrets.of(&app("a")).unwrap(), "of a"));
    assert!(secrets.of(&app("b")).unwrap().is_none());
    write(&dir, "b", "of b");
    assert!(is(secrets.of(&app("b")).unwrap(), "of b"), "from now on");
    fs::remove_file(dir.path().join("b")).unwrap();
    assert!(secrets.of(&app("b")).unwrap().is_none(), "not any more");
    write(&dir, "default", "of others");
    assert!(is(secrets.of(&app("b")).unwrap(), "of others"));
    assert!(is(secrets.of(&app("a")).unwrap(), "of a"));
}

#[test]
fn the_number_of_a_driver_does_not_lead_to_the_secret_of_others() {
    let dir = TempDir::new().unwrap();
    write(&dir, "a", "of a");
    write(&dir, "default", "of others");
    let secrets = Secrets::at(dir.path()).unwrap();
    let named = |id: &str| secrets.of(&app(id)).unwrap();
    assert!(is(named("a~0123456789abcdef"), "of a"));
    assert!(is(named("a~another-sixteen"), "of others"), "no number");
    assert!(is(named("..data"), "of others"));
    assert!(
        is(named(&"a".repeat(256)), "of others"),
        "no file can have it"
    );
    fs::create_dir(dir.path().join("d")).unwrap();
    assert!(is(named("d"), "of others"));
}

#[test]
fn a_directory_as_kubernetes_mounts_it_is_accepted() {
    let dir = TempDir::new().unwrap();
    write(&dir, "a", "of a");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    let secrets = Secrets::at(dir.path()).unwrap();
    assert!(is(secrets.of(&app("a")).unwrap(), "of a"));
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(
        secrets.of(&app("a")).is_err(),
        "anyone could replace the file"
    );
}

#[test]
fn what_cannot_be_right_is_refused_with_the_path_and_the_remedy() {
    let dir = TempDir::new().unwrap();
    let refused = |path: &Path| Secrets::at(path).err().unwrap().to_string();
    let missing = dir.path().join("missing");
    assert!(refused(&missing).contains("missing: No such file"));
    let empty = write(&dir, "empty", "\n");
    assert!(refused(&empty).contains("it is empty"));
    let open = write(&dir, "open", "secret");
    fs::set_permissions(&open, Permissions::from_mode(0o666)).unwrap();
    assert!(refused(&open).contains("chmod go-w"));
    let long = write(&dir, "long", &"a".repeat(SECRET_BYTES_MAX + 1));
    assert!(refused(&long).contains("more than 4096 bytes"));
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A directory that other users reach.
fn reached() -> TempDir {
    let dir = TempDir::new_in("/tmp").unwrap();
    set_mode(dir.path(), 0o755);
    dir
}

#[test]
fn secrets_that_every_user_may_read_are_found_where_others_reach_them() {
    let outer = reached();
    let inner = outer.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let secret = |name: &str, mode| {
        let path = inner.join(name);
        fs::write(&path, "secret\n").unwrap();
        set_mode(&path, mode);
        path
    };
    let first = secret("a", 0o600);
    let of_all = Secrets::at(&first).unwrap();
    let of_each = Secrets::at(&inner).unwrap();
    assert!(of_all.open_files().is_empty() && of_each.open_files().is_empty());
    set_mode(&first, 0o644);
    let second = secret("b", 0o604);
    secret("c", 0o640);
    secret(".hidden", 0o644);
    let page = secret("README", 0o644);
    fs::write(&page, "One file for each application.\nAsk for more.\n").unwrap();
    fs::create_dir(inner.join("d")).unwrap();
    assert!(of_all.open_files().iter().eq([&first]));
    assert!(of_each.open_files().iter().eq([&first, &second]));
    for folder in [inner.as_path(), outer.path()] {
        set_mode(folder, 0o750);
        assert!(of_all.open_files().is_empty() && of_each.open_files().is_empty());
        set_mode(folder, 0o755);
    }
    let link = outer.path().join("link");
    std::os::unix::fs::symlink(&inner, &link).unwrap();
    let linked = Secrets::at(&link).unwrap();
    assert_eq!(linked.open_files().len(), 2);
    set_mode(&inner, 0o700);
    assert!(linked.open_files().is_empty(), "the link leads there");
}

#[test]
fn the_log_says_of_an_open_file_once_that_it_is_open_and_again_after_it_was_not() {
    let dir = reached();
    let (first, second) = (write(&dir, "a", "of a"), write(&dir, "b", "of b"));
    set_mode(&first, 0o644);
    let secrets = Secrets::at(dir.path()).unwrap();
    let is_news = |path: &Path| secrets.open.notice(path, &fs::metadata(path).unwrap());
    secrets.warn_of_open_files();
    assert!(!is_news(&first), "said at the start");
    assert!(!is_news(&second));
    set_mode(&second, 0o644);
    assert!(is_news(&second) && !is_news(&second));
    set_mode(&second, 0o600);
    secrets.of(&app("b")).unwrap();
    set_mode(&second, 0o644);
    assert!(is_news(&second), "it was closed when it was read");
    fs::remove_file(&first).unwrap();
    secrets.of(&app("a")).unwrap();
    write(&dir, "a", "of another");
    set_mode(&first, 0o644);
    assert!(is_news(&first), "it is another file");
}
