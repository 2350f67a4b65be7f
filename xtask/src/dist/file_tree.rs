//! Files of a release in memory, and their archive: the same bytes for the same content, with
//! sorted names, one time and given owners.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// A file or a folder.
#[derive(Clone, Debug)]
struct Node {
    /// `None` for a folder.
    content: Option<Vec<u8>>,
    mode: u32,
    /// User and group.
    owner: u64,
}

/// Files by their paths, which begin without `/`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileTree(BTreeMap<String, Node>);

impl FileTree {
    /// Adds a file that everybody may read, and the folders above it.
    pub(crate) fn file(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.add(path, 0o644, content);
    }

    /// Adds a program, and the folders above it.
    pub(crate) fn program(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.add(path, 0o755, content);
    }

    /// Adds a file with these rights, and the folders above it.
    pub(crate) fn add(&mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) {
        self.folders_above(path);
        let content = Some(content.into());
        let owner = 0;
        let node = Node {
            content,
            mode,
            owner,
        };
        self.0.insert(path.to_owned(), node);
    }

    /// Adds a folder of this user, and the folders above it.
    pub(crate) fn folder(&mut self, path: &str, mode: u32, owner: u64) {
        self.folders_above(path);
        let node = Node {
            content: None,
            mode,
            owner,
        };
        self.0.insert(path.to_owned(), node);
    }

    fn folders_above(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(end, _)| end);
        let folders: Vec<_> = ends.filter_map(|end| path.get(..end)).collect();
        for folder in folders.into_iter().filter(|folder| *folder != ".") {
            let node = Node {
                content: None,
                mode: 0o755,
                owner: 0,
            };
            self.0.entry(folder.to_owned()).or_insert(node);
        }
    }

    /// The same with every path below `prefix`, which ends with `/`.
    pub(crate) fn below(self, prefix: &str) -> Self {
        let mut moved = Self::default();
        for (path, node) in self.0 {
            let path = format!("{prefix}{path}");
            moved.folders_above(&path);
            moved.0.insert(path, node);
        }
        moved
    }

    /// Adds all of another one.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The paths of the files, with their content.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let nodes = self.0.iter();
        nodes.filter_map(|(path, node)| Some((path.as_str(), node.content.as_deref()?)))
    }

    /// The archive, with `time` in seconds since 1970 for every entry.
    ///
    /// # Errors
    /// A path is too long for the two fields of a name: 155 bytes of folders, and 100 of the rest.
    pub(crate) fn tar(&self, time: u64) -> io::Result<Vec<u8>> {
        let mut archive = Builder::new(Vec::new());
        for (path, node) in &self.0 {
            let content = node.content.as_deref();
            let mut header = Header::new_ustar();
            let path = match content {
                None => format!("{path}/"),
                Some(_) => path.clone(),
            };
            name(&mut header, &path)?;
            header.set_entry_type(match content {
                None => EntryType::Directory,
                Some(_) => EntryType::Regular,
            });
            let content = content.unwrap_or_default();
            header.set_size(content.len() as u64);
            header.set_mode(node.mode);
            header.set_uid(node.owner);
            header.set_gid(node.owner);
            header.set_mtime(time);
            if node.owner == 0 {
                header.set_username("root")?;
                header.set_groupname("root")?;
            }
            header.set_cksum();
            archive.append(&header, content)?;
        }
        archive.into_inner()
    }

    /// The archive, compressed.
    ///
    /// # Errors
    /// As of [`FileTree::tar`].
    pub(crate) fn tar_gz(&self, time: u64) -> io::Result<Vec<u8>> {
        gz(&self.tar(time)?)
    }
}

/// Writes the name as it is: a leading `./`, which packages of Debian have, would be taken off. A
/// long one has its first folders in a field of their own.
fn name(header: &mut Header, path: &str) -> io::Result<()> {
    let refused = || {
        let text = format!("{path} is too long for the names of an archive");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let header = header.as_ustar_mut().ok_or_else(refused)?;
    if let Some(field) = header.name.get_mut(..path.len()) {
        field.copy_from_slice(path.as_bytes());
        return Ok(());
    }
    let ends = path.match_indices('/').map(|(end, _)| end);
    let mut parts = ends.filter_map(|end| Some((path.get(..end)?, path.get(end + 1..)?)));
    let fits = |(folders, rest): &(&str, &str)| {
        let is_long = folders.len() > header.prefix.len() || rest.len() > header.name.len();
        !is_long && !rest.is_empty()
    };
    let (folders, rest) = parts.find(fits).ok_or_else(refused)?;
    for (field, text) in [
        (header.prefix.get_mut(..folders.len()), folders),
        (header.name.get_mut(..rest.len()), rest),
    ] {
        field.ok_or_else(refused)?.copy_from_slice(text.as_bytes());
    }
    Ok(())
}

/// Compresses, without a name and a time.
///
/// # Errors
/// None; it is the form of a writer.
pub(crate) fn gz(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut writer = GzBuilder::new().write(Vec::new(), Compression::best());
    writer.write_all(content)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::FileTree;

    #[test]
    fn an_archive_is_the_same_in_whatever_order_its_files_come() {
        let mut tree = FileTree::default();
        tree.file("b/c", "2");
        tree.program("a", "1");
        tree.folder("var/lib/delayq", 0o700, 65_532);
        let mut other = FileTree::default();
        other.folder("var/lib/delayq", 0o700, 65_532);
        other.program("a", "1");
        other.file("b/c", "2");
        let [one, two] = [tree, other].map(|tree| tree.below("./").tar_gz(7).unwrap());
        assert_eq!(one, two);
        let plain = flate2::read::GzDecoder::new(one.as_slice());
        let mut archive = tar::Archive::new(plain);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let path = String::from_utf8(entry.path_bytes().to_vec()).unwrap();
            assert_eq!(header.mtime().unwrap(), 7);
            (path, header.mode().unwrap(), header.uid().unwrap())
        });
        let named = |path: &str, mode: u32, owner: u64| (path.to_owned(), mode, owner);
        let expected = [
            named("./a", 0o755, 0),
            named("./b/", 0o755, 0),
            named("./b/c", 0o644, 0),
            named("./var/", 0o755, 0),
            named("./var/lib/", 0o755, 0),
            named("./var/lib/delayq/", 0o700, 65_532),
        ];
        assert_eq!(entries.collect::<Vec<_>>(), expected);
    }

    /// A version such as 0.10.0-rc.12 is in the first folder of every path.
    #[test]
    fn a_long_path_is_kept_and_one_that_does_not_fit_is_refused() {
        let (folder, name) = ("f".repeat(90), "n".repeat(90));
        let path = format!("{folder}/share/{name}");
        let mut tree = FileTree::default();
        tree.file(&path, "1");
        let written = tree.tar(0).unwrap();
        let mut archive = tar::Archive::new(written.as_slice());
        let paths = archive.entries().unwrap().map(|entry| {
            let path = entry.unwrap().path_bytes().to_vec();
            String::from_utf8(path).unwrap()
        });
        let paths: Vec<_> = paths.collect();
        let (above, below) = (format!("{folder}/"), format!("{folder}/share/"));
        assert_eq!(paths, [above, below, path]);
        let mut tree = FileTree::default();
        tree.file(&"a".repeat(101), "");
        assert!(tree.tar(0).unwrap_err().to_string().contains("too long"));
    }
}
