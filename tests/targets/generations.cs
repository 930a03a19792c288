// Makes, keeps and drops known numbers of objects of known types, and collects when it is told to.
//
// generations
// `make TYPE COUNT` makes so many and keeps them, `drop TYPE COUNT` lets go of the oldest, `waste TYPE COUNT` makes so many and keeps
// none, `pin TYPE COUNT` makes so many that never move and never die, `hole TYPE` lets go of every second one; TYPE is node, pair, text, blob (small arrays), large (arrays of 100 KB), boxed.
// `collect GENERATION` and `compact` collect; `count` answers the collections of each generation,
// `types COUNT` makes an object each of so many types, at most 50,625, and `copies` another one of each;
// `generation TYPE` in which the oldest object is that is kept. Each is answered with `done`, or what was asked.
using System;
using System.Collections.Generic;
using System.Runtime;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

static class Generations
{
    sealed class Node { public Node Next; public long Value; }

    sealed class Pair<T> { public T First; public T Second; }

    struct Point { public int X, Y, Z; }

    interface ICopy { object Copy(); }

    sealed class Many<A, B, C, D> : ICopy { public object Copy() { return MemberwiseClone(); } }

    static readonly Type[] digits =
    {
        typeof(object), typeof(string), typeof(Node), typeof(Queue<object>), typeof(Type), typeof(Exception), typeof(Array), typeof(Delegate),
        typeof(Version), typeof(Random), typeof(Uri), typeof(Lazy<object>), typeof(List<object>), typeof(Attribute), typeof(Pair<object>),
    };

    static readonly List<ICopy> models = new List<ICopy>();
    static readonly List<object> copies = new List<object>();

    static readonly Dictionary<string, Queue<object>> kept = new Dictionary<string, Queue<object>>();
    static long made;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static object Make(string type)
    {
        made++;
        switch (type)
        {
            case "node": return new Node { Next = null, Value = made };
            case "pair": return new Pair<string> { First = "first", Second = "second" };
            case "text": return new string('x', (int)(made % 50) + 1);
            case "blob": return new byte[made % 200];
            case "large": return new byte[100_000];
            case "boxed": return new Point { X = (int)made, Y = 1, Z = 2 };
            default: throw new ArgumentException(type);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Waste(string type, int count)
    {
        for (int i = 0; i < count; i++)
            Make(type);
    }

    static Queue<object> Of(string type)
    {
        if (!kept.TryGetValue(type, out Queue<object> queue))
            kept[type] = queue = new Queue<object>(1 << 17);
        return queue;
    }

    static string Do(string[] words)
    {
        int count = words.Length > 2 ? int.Parse(words[2]) : 0;
        switch (words[0])
        {
            case "make":
                for (Queue<object> queue = Of(words[1]); count > 0; count--)
                    queue.Enqueue(Make(words[1]));
                return "done";
            case "pin":
                for (; count > 0; count--)
                    GCHandle.Alloc(Make(words[1]), GCHandleType.Pinned);
                return "done";
            case "drop":
                for (Queue<object> queue = Of(words[1]); count > 0; count--)
                    queue.Dequeue();
                return "done";
            case "hole":
                Queue<object> holed = Of(words[1]);
                for (int left = holed.Count; left > 0; left--)
                {
                    object one = holed.Dequeue();
                    if (left % 2 == 0)
                        holed.Enqueue(one);
                }
                return "done";
            case "waste": Waste(words[1], count); return "done";
            case "collect": GC.Collect(int.Parse(words[1])); return "done";
            case "compact":
                GCSettings.LargeObjectHeapCompactionMode = GCLargeObjectHeapCompactionMode.CompactOnce;
                GC.Collect(2, GCCollectionMode.Forced, true, true);
                return "done";
            case "types":
                count = int.Parse(words[1]);
                for (int i = 0; i < count; i++)
                {
                    Type type = typeof(Many<,,,>).MakeGenericType(digits[i % 15], digits[i / 15 % 15], digits[i / 225 % 15], digits[i / 3375 % 15]);
                    models.Add((ICopy)Activator.CreateInstance(type));
                }
                return "done";
            case "copies":
                foreach (ICopy model in models)
                    copies.Add(model.Copy());
                return "done";
            case "generation": return GC.GetGeneration(Of(words[1]).Peek()).ToString();
            case "count": return GC.CollectionCount(0) + " " + GC.CollectionCount(1) + " " + GC.CollectionCount(2);
            default: return "unknown";
        }
    }

    static void Main()
    {
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Do(line.Split(' ')));
    }
}
