// Builds objects of which it is known how many there are and what they refer to, and keeps them.
//
// heap [NODES]
// `nodes` answers how many nodes there are; `grow N` adds so many, and answers how many there are then; `touch` writes to each, and answers the same; `children` answers how many children a wait for any child finds (none: -1); `exec` becomes `cat`; `waste N` makes so many objects that nothing refers to; `collections` answers how often was collected.
using System;
using System.Runtime.InteropServices;

namespace Known
{
    class Leaf
    {
        public long Value;
    }

    class Node
    {
        public Node Next;
        public Leaf Leaf;
    }

    class Pair<TFirst, TSecond>
    {
        public TFirst First;
        public TSecond Second;

        public class Inner
        {
            public TSecond Own;
        }
    }

    class Waste
    {
        public static int Made;

        [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)]
        public static int Make(int count)
        {
            for (int index = 0; index < count; index++)
                Made += new Waste().GetHashCode() == 0 ? 0 : 1;
            return Made;
        }
    }

    static class Program
    {
        static Node first;
        static Node[] array;
        static object[] others;

        [DllImport("libc", SetLastError = true)]
        static extern int waitpid(int process, IntPtr status, int options);

        [DllImport("libc")]
        static extern int execv(string path, string[] arguments);

        static void Main(string[] arguments)
        {
            int nodes = arguments.Length > 0 ? int.Parse(arguments[0]) : 1000;
            var shared = new Leaf();
            Grow(nodes, shared);
            array = new[] { first, first.Next };
            others = new object[]
            {
                new Pair<int, Leaf> { First = 1, Second = shared },
                new Pair<string, Node>.Inner { Own = first },
                new Leaf[3, 2],
                new Node[2][],
            };
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
                Console.WriteLine(Answer(line, shared));
            GC.KeepAlive(array);
            GC.KeepAlive(others);
        }

        static string Answer(string line, Leaf shared)
        {
            if (line.StartsWith("grow "))
                Grow(int.Parse(line.Substring(5)), shared);
            if (line == "touch")
                Touch();
            if (line == "collections")
                return GC.CollectionCount(0).ToString();
            if (line.StartsWith("waste "))
                return Waste.Make(int.Parse(line.Substring(6))).ToString();
            if (line == "exec")
                execv("/bin/cat", new[] { "cat", null });
            return line == "children" ? waitpid(-1, IntPtr.Zero, 1).ToString() : Count().ToString();
        }

        static void Grow(int nodes, Leaf shared)
        {
            for (int i = 0; i < nodes; i++)
                first = new Node { Next = first, Leaf = i % 2 == 0 ? new Leaf { Value = i } : shared };
        }

        static void Touch()
        {
            for (Node node = first, next; node != null; node = next)
            {
                next = node.Next;
                node.Next = null;
                node.Next = next;
            }
        }

        static int Count()
        {
            int count = 0;
            for (Node node = first; node != null; node = node.Next)
                count++;
            return count;
        }
    }
}
