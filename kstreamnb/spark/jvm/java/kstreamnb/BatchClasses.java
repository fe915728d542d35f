package kstreamnb;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.security.ProtectionDomain;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.Label;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * Adds calls of {@link BatchCache} and {@link DeclaredState} to four methods of Spark before Spark loads their classes. Spark
 * repeats two for every batch, with the same result: it runs its analyzer for each encoder of each copy of a stateful
 * operator, and reads its own classes to find out what its own closures refer to. The third, for every row that goes to
 * Python, adds up the sizes of all columns of the rows before it, to limit the bytes of an Arrow batch. The fourth starts a
 * Python process when a query starts, to ask a stateful operator for its state.
 *
 * <p>An agent could do the same, but Java passes each class that it loads to an agent, and reads it from its jar for that,
 * even if the class comes from an archive of classes.
 */
public final class BatchClasses {
    private static final String ENCODER = "org/apache/spark/sql/catalyst/encoders/ExpressionEncoder";
    private static final String CLEANER = "org/apache/spark/util/SparkClosureCleaner$";
    private static final String INPUT = "org/apache/spark/sql/execution/python/BatchedPythonArrowInput$";
    private static final String STATEFUL = "org/apache/spark/sql/execution/python/streaming/TransformWithStateInPySparkExec$";
    private static final String RUNNER =
        "org/apache/spark/sql/execution/python/streaming/TransformWithStateInPySparkPythonPreInitRunner";
    private static final String CACHE = "kstreamnb/BatchCache";
    private static final String OBJECT = "java/lang/Object";

    private BatchClasses() { }

    /** Defines the classes. One that Spark has loaded already is an error, and it stays as it is. */
    public static void define() throws IOException, ReflectiveOperationException {
        final ClassLoader loader = BatchClasses.class.getClassLoader();
        final Method define = ClassLoader.class.getDeclaredMethod(
            "defineClass", String.class, byte[].class, int.class, int.class, ProtectionDomain.class);
        define.setAccessible(true); // Spark starts its JVM with --add-opens for this package
        for (final String name : new String[] {ENCODER, CLEANER, INPUT, STATEFUL}) {
            try (InputStream file = loader.getResourceAsStream(name + ".class")) {
                final byte[] bytes = changed(name, file.readAllBytes());
                define.invoke(loader, null, bytes, 0, bytes.length, BatchClasses.class.getProtectionDomain());
            }
        }
    }

    private static byte[] changed(final String name, final byte[] bytes) {
        final ClassReader reader = new ClassReader(bytes);
        final ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(final int access, final String method, final String descriptor,
                                             final String signature, final String[] exceptions) {
                final MethodVisitor next = super.visitMethod(access, method, descriptor, signature, exceptions);
                final boolean encodes = method.equals("resolveAndBind") && descriptor.endsWith(")L" + ENCODER + ";");
                final boolean cleans = method.equals("clean") && descriptor.equals("(Ljava/lang/Object;ZZ)Ljava/lang/Object;");
                final boolean limits = name.equals(INPUT) && method.startsWith("underBatchSizeLimit");
                final boolean declares = name.equals(STATEFUL) && method.equals("runPreInitRunner");
                return encodes ? new Encodes(next) : cleans ? new Cleans(next) : limits ? new Limits(next)
                    : declares ? new Declares(next) : next;
            }
        }, ClassReader.EXPAND_FRAMES);
        return writer.toByteArray();
    }

    /** Returns what the cache has for these arguments; else notes the result there. */
    private static final class Encodes extends MethodVisitor {
        Encodes(final MethodVisitor next) {
            super(Opcodes.ASM9, next);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            final Label absent = new Label();
            arguments();
            visitMethodInsn(Opcodes.INVOKESTATIC, CACHE, "bound",
                "(Ljava/lang/Object;Ljava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;", false);
            visitInsn(Opcodes.DUP);
            visitJumpInsn(Opcodes.IFNULL, absent);
            visitTypeInsn(Opcodes.CHECKCAST, ENCODER);
            super.visitInsn(Opcodes.ARETURN);
            visitLabel(absent);
            final Object[] locals = {
                ENCODER, "scala/collection/immutable/Seq", "org/apache/spark/sql/catalyst/analysis/Analyzer"};
            visitFrame(Opcodes.F_NEW, 3, locals, 1, new Object[] {OBJECT});
            visitInsn(Opcodes.POP);
        }

        @Override
        public void visitInsn(final int opcode) {
            if (opcode == Opcodes.ARETURN) {
                super.visitInsn(Opcodes.DUP);
                arguments();
                visitMethodInsn(Opcodes.INVOKESTATIC, CACHE, "note",
                    "(Ljava/lang/Object;Ljava/lang/Object;Ljava/lang/Object;Ljava/lang/Object;)V", false);
            }
            super.visitInsn(opcode);
        }

        private void arguments() {
            for (int at = 0; at < 3; at++) {
                visitVarInsn(Opcodes.ALOAD, at);
            }
        }
    }

    /** Returns closures of Spark itself as they are. */
    private static final class Cleans extends MethodVisitor {
        Cleans(final MethodVisitor next) {
            super(Opcodes.ASM9, next);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            final Label other = new Label();
            visitVarInsn(Opcodes.ALOAD, 1);
            visitMethodInsn(Opcodes.INVOKESTATIC, CACHE, "isClean", "(Ljava/lang/Object;)Z", false);
            visitJumpInsn(Opcodes.IFEQ, other);
            visitVarInsn(Opcodes.ALOAD, 1);
            visitInsn(Opcodes.ARETURN);
            visitLabel(other);
            visitFrame(Opcodes.F_NEW, 4, new Object[] {CLEANER, OBJECT, Opcodes.INTEGER, Opcodes.INTEGER}, 0, new Object[0]);
        }
    }

    /** Starts no Python process to ask for state that is known. */
    private static final class Declares extends MethodVisitor {
        Declares(final MethodVisitor next) {
            super(Opcodes.ASM9, next);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            final Label other = new Label();
            visitVarInsn(Opcodes.ALOAD, 1);
            visitMethodInsn(Opcodes.INVOKESTATIC, "kstreamnb/DeclaredState", "declare", "(L" + RUNNER + ";)Z", false);
            visitJumpInsn(Opcodes.IFEQ, other);
            visitInsn(Opcodes.RETURN);
            visitLabel(other);
            visitFrame(Opcodes.F_NEW, 2, new Object[] {STATEFUL, RUNNER}, 0, new Object[0]);
        }
    }

    /** Lets most rows pass without a look at the size of the batch. */
    private static final class Limits extends MethodVisitor {
        Limits(final MethodVisitor next) {
            super(Opcodes.ASM9, next);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            final Label due = new Label();
            visitMethodInsn(Opcodes.INVOKESTATIC, CACHE, "isSizeDue", "()Z", false);
            visitJumpInsn(Opcodes.IFNE, due);
            visitInsn(Opcodes.ICONST_1);
            visitInsn(Opcodes.IRETURN);
            visitLabel(due);
            final Object[] locals = {Opcodes.LONG, "org/apache/spark/sql/execution/arrow/ArrowWriter"};
            visitFrame(Opcodes.F_NEW, 2, locals, 0, new Object[0]);
        }
    }
}
