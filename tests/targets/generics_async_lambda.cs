// Burns processor time in every kind of method whose compiled name differs from the one in the source.
//
// generics_async_lambda
// `names` answers the names as C# has them, separated by ` | `; `count` answers the rounds.
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace Shop.Orders
{
    static class Program
    {
        const MethodImplOptions Plain = MethodImplOptions.NoInlining;

        static readonly string[] names =
        {
            "Shop.Orders.Program.Burn(int)",
            "Shop.Orders.Box<T>.Fold(T, int)",
            "Shop.Orders.Box<T>.Map<TKey>(TKey, int)",
            "Shop.Orders.Box<T>.Inner.Deep()",
            "Shop.Orders.Box<T>..ctor(T)",
            "Shop.Orders.Money.op_Addition(Shop.Orders.Money, Shop.Orders.Money)",
            "Shop.Orders.Ledger.get_Total()",
            "Shop.Orders.Ledger.get_Item(int)",
            "Shop.Orders.Ledger.Shop.Orders.IAudit.Check(ref int, out long)",
            "Shop.Orders.Program.PriceAsync(int)",
            "Shop.Orders.Program.Numbers(int)",
            "Shop.Orders.Program.WithLambda(int)",
            "Shop.Orders.Program.WithLocal(int)",
            "Shop.Orders.Program.Shapes(int[], string[,], int?, System.Collections.Generic.List<string>)",
            "Shop.Orders.Extensions.Twice(string, int)",
        };

        static long rounds;
        static uint sink;

        static void Main()
        {
            new Thread(Work) { IsBackground = true, Name = "names" }.Start();
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
                Console.WriteLine(line == "count" ? Interlocked.Read(ref rounds).ToString() : line == "names" ? string.Join(" | ", names) : "unknown");
        }

        static void Work()
        {
            while (true)
            {
                Round(2000);
                Interlocked.Increment(ref rounds);
            }
        }

        [MethodImpl(Plain)]
        static void Round(int turns)
        {
            new Box<string>("text").Fold("text", turns);
            new Box<int>(1).Fold(1, turns);
            new Box<string>("text").Map(1L, turns);
            new Box<int>.Inner().Deep();
            _ = new Money(1) + new Money(2);
            var ledger = new Ledger();
            sink += (uint)ledger.Total + (uint)ledger[turns];
            int reference = 1;
            ((IAudit)ledger).Check(ref reference, out _);
            PriceAsync(turns).Wait();
            foreach (int number in Numbers(3))
                sink += (uint)number;
            WithLambda(turns);
            WithLocal(turns);
            Shapes(new int[1], new string[1, 1], 1, new List<string>());
            "text".Twice(turns);
        }

        [MethodImpl(Plain)]
        public static uint Burn(int turns)
        {
            uint state = 1;
            for (int i = 0; i < turns; i++)
                state = state * 1664525 + 1013904223;
            return state;
        }

        [MethodImpl(Plain)]
        static async Task<uint> PriceAsync(int turns)
        {
            uint price = Burn(turns);
            await Task.Yield();
            for (int i = 0; i < turns; i++)
                price = price * 1664525 + 1013904223;
            return price;
        }

        [MethodImpl(Plain)]
        static IEnumerable<int> Numbers(int count)
        {
            for (int i = 0; i < count; i++)
            {
                Burn(700);
                yield return i;
            }
        }

        [MethodImpl(Plain)]
        static void WithLambda(int turns)
        {
            Func<uint, uint> step = seed =>
            {
                uint state = seed;
                for (int i = 0; i < turns; i++)
                    state = state * 1664525 + 1013904223;
                return state;
            };
            sink += step(3);
        }

        [MethodImpl(Plain)]
        static void WithLocal(int turns)
        {
            sink += Local(5);

            [MethodImpl(Plain)]
            uint Local(uint seed)
            {
                for (int i = 0; i < turns; i++)
                    seed = seed * 1664525 + 1013904223;
                return seed;
            }
        }

        [MethodImpl(Plain)]
        static void Shapes(int[] one, string[,] two, int? maybe, List<string> list)
        {
            for (int i = 0; i < 2000; i++)
                sink = sink * 1664525 + (uint)one.Length + (uint)two.Length + (uint)maybe.Value + (uint)list.Count;
        }
    }

    class Box<T>
    {
        T value;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public Box(T value)
        {
            this.value = value;
            Program.Burn(500);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public T Fold(T seed, int turns)
        {
            uint state = 1;
            for (int i = 0; i < turns; i++)
                state = state * 1664525 + 1013904223;
            return state == 0 ? seed : value;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public TKey Map<TKey>(TKey key, int turns)
        {
            uint state = 1;
            for (int i = 0; i < turns; i++)
                state = state * 1664525 + 1013904223;
            return state == 0 ? default(TKey) : key;
        }

        public class Inner
        {
            [MethodImpl(MethodImplOptions.NoInlining)]
            public uint Deep() => Program.Burn(2000) + 1;
        }
    }

    struct Money
    {
        readonly uint cents;

        public Money(uint cents) { this.cents = cents; }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static Money operator +(Money left, Money right) => new Money(left.cents + right.cents + Program.Burn(2000));
    }

    interface IAudit
    {
        void Check(ref int turns, out long result);
    }

    class Ledger : IAudit
    {
        public int Total
        {
            [MethodImpl(MethodImplOptions.NoInlining)]
            get { return (int)Program.Burn(2000) + 1; }
        }

        public int this[int index]
        {
            [MethodImpl(MethodImplOptions.NoInlining)]
            get { return (int)Program.Burn(index) + 1; }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        void IAudit.Check(ref int turns, out long result)
        {
            result = Program.Burn(2000) + turns;
        }
    }

    static class Extensions
    {
        [MethodImpl(MethodImplOptions.NoInlining)]
        public static uint Twice(this string text, int turns) => Program.Burn(turns) + (uint)text.Length;
    }
}
