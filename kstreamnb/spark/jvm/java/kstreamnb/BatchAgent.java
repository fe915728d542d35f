package kstreamnb;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import java.util.HashSet;
import java.util.Set;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.Label;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * Adds calls of {@link BatchCache} to three methods of Spark when it loads them. Spark repeats two for every batch, with
 * the same result: it runs its analyzer for each encoder of each copy of a stateful operator, and reads its own classes
 * to find out what its own closures refer to. The third, for every row that goes to Python, adds up the sizes of all
 * columns of the rows before it, to limit the bytes of an Arrow batch.
 */
public final class BatchAgent implements ClassFileTransformer {
    private static final String ENCODER = "org/apache/spark/sql/catalyst/encoders/ExpressionEncoder";
    private static final String CLEANER = "org/apache/spark/util/SparkClosureCleaner$";
    private static final String INPUT = "org/apache/spark/sql/execution/python/BatchedPythonArrowInput$";
    private static final String CACHE = "kstreamnb/BatchCache";
    private static final String OBJECT = "java/lang/Object";

    private final Set<String> waiting = new HashSet<>(Set.of(ENCODER, CLEANER, INPUT));
    private final Instrumentation instrumentation;

    private BatchAgent(final Instrumentation instrumentation) {
        this.instrumentation = instrumentation;
    }

    public static void premain(final String arguments, final Instrumentation instrumentation) {
        instrumentation.addTransformer(new BatchAgent(instrumentation));
    }

    @Override
    public byte[] transform(final ClassLoader loader, final String name, final Class<?> before,
                            final ProtectionDomain domain, final byte[] bytes) {
        if (!ENCODER.equals(name) && !CLEANER.equals(name) && !INPUT.equals(name)) {
            return null;
        }
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
                return encodes ? new Encodes(next) : cleans ? new Cleans(next) : limits ? new Limits(next) : next;
            }
        }, ClassReader.EXPAND_FRAMES);
        synchronized (waiting) {
            if (waiting.remove(name) && waiting.isEmpty()) {
                instrumentation.removeTransformer(this);
            }
        }
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
