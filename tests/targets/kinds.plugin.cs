// What `kinds` loads into contexts that can be unloaded: each object of these types refers to what holds their context, too.
namespace Loaded
{
    public class Alone
    {
        public long Number;
    }

    public class Thing
    {
        public object Reference = new Alone();
    }

    public class Lone
    {
        public long Number;
    }

    public class Stray
    {
        public object Reference = new Lone();
    }
}
