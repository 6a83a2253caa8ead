// SPDX-License-Identifier: Apache-2.0
package io.lodestone.conformance;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * Suites create their own {@code SparkConf}, many of them without system properties, and one sets
 * Spark's shuffle manager. The agent therefore changes the constructor of {@code SparkContext}: it
 * first asks {@link Keys} for the configuration to use.
 */
public final class Agent {
  private static final String CONTEXT = "org/apache/spark/SparkContext";
  private static final String CONF = "org/apache/spark/SparkConf";

  private Agent() {}

  /**
   * @param file keys and values in the format of {@code java.util.Properties}
   */
  public static void premain(String file, Instrumentation instrumentation) {
    Keys.readFrom(file);
    instrumentation.addTransformer(new ContextTransformer());
    if (ServiceDaemon.isGiven()) {
      instrumentation.addTransformer(new ServiceTransformer());
    }
  }

  private static final class ContextTransformer implements ClassFileTransformer {
    @Override
    public byte[] transform(
        ClassLoader loader, String name, Class<?> old, ProtectionDomain domain, byte[] bytes) {
      if (!CONTEXT.equals(name)) {
        return null;
      }
      ClassReader reader = new ClassReader(bytes);
      // The stack frames do not change: one configuration replaces another.
      ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
      reader.accept(new ContextVisitor(writer), 0);
      return writer.toByteArray();
    }
  }

  private static final class ContextVisitor extends ClassVisitor {
    ContextVisitor(ClassVisitor next) {
      super(Opcodes.ASM9, next);
    }

    @Override
    public MethodVisitor visitMethod(
        int access, String name, String descriptor, String signature, String[] exceptions) {
      MethodVisitor next = super.visitMethod(access, name, descriptor, signature, exceptions);
      // All other constructors call this one.
      boolean isPrimary = "<init>".equals(name) && ("(L" + CONF + ";)V").equals(descriptor);
      return isPrimary ? new ConstructorVisitor(next) : next;
    }
  }

  private static final class ConstructorVisitor extends MethodVisitor {
    ConstructorVisitor(MethodVisitor next) {
      super(Opcodes.ASM9, next);
    }

    @Override
    public void visitCode() {
      super.visitCode();
      super.visitVarInsn(Opcodes.ALOAD, 1);
      String keys = Keys.class.getName().replace('.', '/');
      super.visitMethodInsn(
          Opcodes.INVOKESTATIC, keys, "putInto", "(L" + CONF + ";)L" + CONF + ";", false);
      super.visitVarInsn(Opcodes.ASTORE, 1);
    }
  }
}
