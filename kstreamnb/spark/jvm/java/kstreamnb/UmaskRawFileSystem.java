package kstreamnb;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Writes local files with the permissions of the process's umask; Hadoop would start a chmod process for each. */
public class UmaskRawFileSystem extends RawLocalFileSystem {
    /** Takes away what the file may not have, such as that others read Spark's event log; grants nothing. */
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        java.nio.file.Path file = pathToFile(path).toPath();
        if (!file.getFileSystem().supportedFileAttributeViews().contains("posix")) {
            return;
        }
        String wanted = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
            + permission.getOtherAction().SYMBOL;
        Set<PosixFilePermission> present = Files.getPosixFilePermissions(file);
        if (present.retainAll(PosixFilePermissions.fromString(wanted))) {
            Files.setPosixFilePermissions(file, present);
        }
    }
}
