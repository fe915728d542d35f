package kstreamnb;

import org.apache.hadoop.fs.LocalFileSystem;

/** Hadoop's local file system, which keeps checksums, over {@link UmaskRawFileSystem}. */
public class UmaskFileSystem extends LocalFileSystem {
    public UmaskFileSystem() {
        super(new UmaskRawFileSystem());
    }
}
