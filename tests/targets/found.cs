// Builds what a report finds by itself, in known numbers, and then stands still.
//
// found
// Arrays and collections with more room than content, tasks and timers that wait, subscribers that only an event keeps, finalizers; and
// beside each of them what looks alike and is in order.
// `bytes` answers how many bytes a subscriber's payload has.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.IO;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

#pragma warning disable 67, 169, 414, 465, 649 // What nobody uses is here to be found.

namespace Found
{
    class Item { }
    class Place { }
    class Full { }
    class Few { }
    struct Pair { public object First; public int Second; }

    // Finalizers: its own, inherited, overridden again; and a method that only looks like one.
    class Finalized { ~Finalized() { } }
    class Inherits : Finalized { }
    class Again : Finalized { ~Again() { } }
    class NoFinalizer { public void Finalize() { } }
    class NoFinalizerEither { protected virtual void Finalize(int number) { } }

    class Payload { readonly byte[] bytes = new byte[Program.PayloadBytes]; }

    class Publisher
    {
        public event EventHandler Changed;
        public event EventHandler<CustomArguments> Custom;
        public static event EventHandler Closed;
        public static event Action Ticked;
        public static void SubscribeTicked() { for (int i = 0; i < 4; i++) Ticked += new ByAction().On; }
        // No event: whoever is called back so belongs to its caller.
        public Action Callback;
    }
    class CustomArguments : EventArgs { }
    class Derived : Publisher { }

    class Subscriber { readonly Payload payload = new Payload(); public void On(object sender, EventArgs arguments) => GC.KeepAlive(payload); }
    class Alone { readonly Payload payload = new Payload(); public void On(object sender, CustomArguments arguments) => GC.KeepAlive(payload); }
    class Kept { readonly Payload payload = new Payload(); public void On(object sender, EventArgs arguments) => GC.KeepAlive(payload); }
    class ByStatic { readonly Payload payload = new Payload(); public void On(object sender, EventArgs arguments) => GC.KeepAlive(payload); }
    class ByAction { readonly Payload payload = new Payload(); public void On() => GC.KeepAlive(payload); }
    class Worker { readonly Payload payload = new Payload(); public void Work() => GC.KeepAlive(payload); }
    class Captures
    {
        readonly Payload payload = new Payload();
        public void Subscribe(Publisher to, int number) => to.Changed += (sender, arguments) => GC.KeepAlive(number + payload.GetHashCode());
    }
    // Owns its publisher: that goes with it.
    class Owner
    {
        readonly Publisher own = new Publisher();
        public Owner() => own.Changed += On;
        void On(object sender, EventArgs arguments) => GC.KeepAlive(own);
    }

    class Clock { public void Tick(object state) { } }
    class Stopped { public void Tick(object state) { } }
    class State { }

    static class Program
    {
        public const int PayloadBytes = 1000;
        static readonly List<object> kept = new List<object>(4096);
        static readonly TaskCompletionSource<int> never = new TaskCompletionSource<int>();
        static readonly TaskCompletionSource<int> endless = new TaskCompletionSource<int>();

        static void Main()
        {
            Arrays();
            Collections();
            Finalizers();
            Events();
            Tasks();
            Timers();
            Console.WriteLine("ready");
            for (string line; (line = Console.ReadLine()) != null && line != "quit";)
                Console.WriteLine(line == "bytes" ? PayloadBytes.ToString() : "unknown");
            GC.KeepAlive(kept);
        }

        static void Keep(object one) => kept.Add(one);

        static void Fill<T>(T[] places, int count) where T : new()
        {
            for (int i = 0; i < count; i++)
                places[i] = new T();
            Keep(places);
        }

        static void Arrays()
        {
            for (int i = 0; i < 5; i++)
                Fill(new Place[1000], 10 * i);
            Fill(new Full[1000], 501);
            Fill(new Few[15], 1);
            var table = new Place[40, 50];
            table[0, 0] = new Place();
            Keep(table);
        }

        static void Collections()
        {
            for (int i = 0; i < 3; i++)
                Keep(new List<Item>(1000) { new Item(), new Item() });
            Keep(new List<Item>(10) { new Item() });
            Keep(new Queue<Item>(500));
            var stack = new Stack<Item>(600);
            stack.Push(new Item());
            Keep(stack);
            var dictionary = new Dictionary<string, Item>(1000);
            var numbers = new Dictionary<int, Item>(1000);
            var plain = new Dictionary<int, long>(1000);
            var set = new HashSet<Item>(1000);
            for (int i = 0; i < 7; i++)
            {
                dictionary.Add(i.ToString(), new Item());
                numbers.Add(i, new Item());
                plain.Add(i, i);
                set.Add(new Item());
            }
            Keep(dictionary);
            Keep(numbers);
            Keep(plain);
            Keep(set);
            Keep(new List<int>(1000) { 1, 2, 3 });
            Keep(new List<Pair>(1000) { new Pair { First = new Item() } });
            Keep(new StringBuilder(10000).Append("few"));
            var stream = new MemoryStream(10000);
            stream.WriteByte(1);
            Keep(stream);
            var full = new List<Item>();
            for (int i = 0; i < 1000; i++)
                full.Add(new Item());
            Keep(full);
        }

        static void Finalizers()
        {
            for (int i = 0; i < 6; i++)
                Keep(new Finalized());
            for (int i = 0; i < 4; i++)
                Keep(new Inherits());
            for (int i = 0; i < 2; i++)
                Keep(new Again());
            Keep(new NoFinalizer());
            Keep(new NoFinalizerEither());
        }

        static void Events()
        {
            var publisher = new Publisher();
            Keep(publisher);
            for (int i = 0; i < 20; i++)
                publisher.Changed += new Subscriber().On;
            var single = new Derived();
            Keep(single);
            single.Custom += new Alone().On;
            for (int i = 0; i < 5; i++)
            {
                var subscriber = new Kept();
                publisher.Changed += subscriber.On;
                Keep(subscriber);
            }
            for (int i = 0; i < 3; i++)
                Publisher.Closed += new ByStatic().On;
            Publisher.SubscribeTicked();
            for (int i = 0; i < 2; i++)
                new Captures().Subscribe(publisher, i);
            publisher.Callback = new Worker().Work;
            publisher.Changed += (sender, arguments) => { };
            Keep(new Owner());
        }

        static async Task Waits() => Keep(await never.Task);

        static async Task<int> WaitsForNumber() => 1 + await never.Task;

        static async Task Outer() => await Middle();

        static async Task Middle() => Keep(await Inner());

        static async Task<int> Inner() => 1 + await endless.Task;

        static async Task Ends() => await Task.CompletedTask;

        static async Task EndsLater(Task after) => await after;

        static void Tasks()
        {
            for (int i = 0; i < 7; i++)
                Keep(Waits());
            for (int i = 0; i < 4; i++)
                Keep(WaitsForNumber());
            var now = new TaskCompletionSource<int>();
            for (int i = 0; i < 3; i++)
                Keep(EndsLater(now.Task));
            now.SetResult(1);
            for (int i = 0; i < 2; i++)
                Keep(Outer());
            Keep(Ends());
        }

        static void Timers()
        {
            for (int i = 0; i < 4; i++)
                Keep(new Timer(new Clock().Tick, null, TimeSpan.FromDays(1), Timeout.InfiniteTimeSpan));
            for (int i = 0; i < 2; i++)
                Keep(new Timer(new Stopped().Tick, null, Timeout.Infinite, Timeout.Infinite));
            var stopped = new Timer(new Stopped().Tick, null, TimeSpan.FromDays(1), TimeSpan.FromDays(1));
            stopped.Change(Timeout.Infinite, Timeout.Infinite);
            Keep(stopped);
            Keep(new Timer(state => { }, new State(), TimeSpan.FromDays(1), TimeSpan.FromDays(1)));
            for (int i = 0; i < 3; i++)
                Keep(Task.Delay(TimeSpan.FromDays(1)));
        }
    }
}
