package kstreamnb;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Writes local files with the permissions of the process's umask; Hadoop would start a chmod process for each. */
public class UmaskRawFileSystem extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) {}
}
